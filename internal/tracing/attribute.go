package tracing

// Attribute is an attribute of a span. Each is a number, or a word of a closed list; there are no others.
type Attribute struct {
	key    string
	number int64
	word   string
}

// Connector is the connector's ID.
func Connector(id int32) Attribute { return Attribute{key: "echomind.connector", number: int64(id)} }

// Type is the connector's type.
func Type(name string) Attribute { return Attribute{key: "echomind.type", word: name} }

// DueReason is why the connector was due.
func DueReason(word string) Attribute { return Attribute{key: "echomind.due_reason", word: word} }

// Outcome is the outcome of a span's part of the run.
func Outcome(word string) Attribute { return Attribute{key: "echomind.outcome", word: word} }

// Verdict is the verdict of the run.
func Verdict(word string) Attribute { return Attribute{key: "echomind.verdict", word: word} }

// Number is a message's number within its run; 0 is sync completed.
func Number(no int64) Attribute { return Attribute{key: "echomind.number", number: no} }

// Messages is the number of messages.
func Messages(n int64) Attribute { return Attribute{key: "echomind.messages", number: n} }

// Texts is the number of embedded texts.
func Texts(n int) Attribute { return Attribute{key: "echomind.texts", number: int64(n)} }

// Chunks is the number of stored chunks.
func Chunks(n int) Attribute { return Attribute{key: "echomind.chunks", number: int64(n)} }

// Delivery counts the deliveries of a message, from 1.
func Delivery(n uint64) Attribute { return Attribute{key: "echomind.delivery", number: int64(n)} }

// Tries counts how often something was begun.
func Tries(n int) Attribute { return Attribute{key: "echomind.tries", number: int64(n)} }

// Keys lists the attributes' names.
var Keys = []string{
	"echomind.session", "echomind.connector", "echomind.type", "echomind.due_reason", "echomind.outcome", "echomind.verdict",
	"echomind.number", "echomind.messages", "echomind.texts", "echomind.chunks", "echomind.delivery", "echomind.tries",
}
