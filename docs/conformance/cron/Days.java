// The block "days" of cron.tsv, by Quartz 2.3.2. Each line of days.txt is an expression of ours, the same in Quartz's words, a
// moment, and how many slots are wanted.
//     javac -cp quartz-2.3.2.jar Days.java && java -cp quartz-2.3.2.jar:slf4j-api.jar:. Days < days.txt
import java.text.SimpleDateFormat;
import java.util.Date;
import java.util.Scanner;
import java.util.TimeZone;
import org.quartz.CronExpression;

public class Days {
    public static void main(String[] args) throws Exception {
        TimeZone utc = TimeZone.getTimeZone("UTC");
        SimpleDateFormat format = new SimpleDateFormat("yyyy-MM-dd'T'HH:mm:ss'Z'");
        format.setTimeZone(utc);
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] line = lines.nextLine().split("\t");
            CronExpression expression = new CronExpression(line[1]);
            expression.setTimeZone(utc);
            Date at = format.parse(line[2]);
            StringBuilder slots = new StringBuilder();
            for (int i = 0; i < Integer.parseInt(line[3]); i++) {
                at = expression.getNextValidTimeAfter(at);
                slots.append(i > 0 ? " " : "").append(format.format(at));
            }
            System.out.println(String.join("\t", "UTC", line[0], "1", "-", "-", line[2], format.format(at), slots));
        }
    }
}
