// The block "default policies" of cron.tsv, by croner 11.0.1 with the zones of the JavaScript engine. It reads the rows of the
// block "changes of the clocks" that leave both policies to the schedule, and looks for their slots itself. croner takes a step of
// the hour for a periodic schedule, which we do not, and runs nothing behind a gap that reaches midnight (Pyongyang, Apia): those
// rows are left out.
//     node defaults.mjs < clocks.tsv
import { readFileSync } from 'node:fs';
import { Cron } from 'croner';

const stamp = (at) => at.toISOString().replace('.000Z', 'Z');
for (const line of readFileSync(0, 'utf8').split('\n')) {
  const [zone, expression, id, gap, overlap, from, until] = line.split('\t');
  if (line === '' || line[0] === '#' || gap !== '-' || overlap !== '-' || expression.includes('H') || /^\S+ \*\/2/.test(expression)
    || zone === 'Asia/Pyongyang' || zone === 'Pacific/Apia') continue;
  const job = new Cron(expression, { paused: true, timezone: zone, mode: '5-part', sloppyRanges: true, fixedTimeRule: 'no-wildcard' });
  const slots = [];
  for (let at = job.nextRun(new Date(from)); at && at <= new Date(until); at = job.nextRun(at)) slots.push(stamp(at));
  console.log([zone, expression, id, gap, overlap, from, until, slots.join(' ') || '-'].join('\t'));
}
