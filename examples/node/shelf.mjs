// A whole subscriber in JavaScript, on nothing but docs/contract.md: it syncs connectors of the type `shelf`, each of which
// names a library by its URL. GET <url>/books lists the books, [{"id", "title", "version"}]; GET <url>/books/<id> is a text.
//
//	psql -c "INSERT INTO connector_types (name) VALUES ('shelf')" -c "CREATE ROLE shelf LOGIN PASSWORD '…' IN ROLE echomind_subscriber"
//	npm ci && DATABASE_URL=… NATS_URL=… NATS_USER=… NATS_PASSWORD=… node shelf.mjs
//	echomind connectors add --name mine --type shelf --user 1 --refresh 60m --config '{"url":"https://library.example"}'
import { createHash, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, headers, nanos } from "@nats-io/transport-node";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import pg from "pg";
import { DocumentRequest, SyncRequest, object, struct } from "./wire.mjs";

const type = "shelf", longest = Number(process.env.LONGEST_SECONDS ?? 1800), checkpointEvery = 10;
const messageBytes = 512 << 10, partBytes = 256 << 10, chunkBytes = 4096; // the most of a message; what is put into a part, and a chunk
const seconds = Number(process.env.LEASE_SECONDS ?? 15), lease = `${seconds} s`;
const worker = randomUUID(); // this process, as Postgres knows it
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 4, connectionTimeoutMillis: 5_000, query_timeout: 10_000 });
db.on("error", () => {}); // an idle connection that breaks is replaced
const { NATS_URL, NATS_USER: user, NATS_PASSWORD: pass } = process.env;
const nc = await connect({ servers: NATS_URL.split(","), user, pass, inboxPrefix: `_INBOX_${user ?? type}`, maxReconnectAttempts: -1 });
const js = jetstream(nc), jsm = await jetstreamManager(nc, { checkAPI: false });

// Postgres keeps no NUL, and refuses the whole call where a text has one.
const clean = (text, most = Infinity) => String(text ?? "").replaceAll("\0", "").slice(0, most).toWellFormed();

const log = (what, about) => console.log(JSON.stringify({ what, ...about }));

let current, stopping = false, patience = Infinity; // patience: until when a server of ours may be away

// A server of ours that is away is a wait: a call is repeated until it is answered, the run has ended, or it is a mistake.
async function again(run, call) {
  for (let pause = 200; ; pause = Math.min(2 * pause, 5_000)) {
    try {
      return await call();
    } catch (err) {
      const mistake = err.name === "InvalidArgumentError" || /^(22|23|42|55000|P0002)/.test(err.code ?? "");
      if (run.signal?.aborted || Date.now() > patience || mistake) throw err;
      log("waiting", { why: err.message });
      run.message?.working();
      await sleep(pause);
    }
  }
}
const move = async (run, name, ...args) =>
  again(run, async () => (await db.query(`SELECT moves.${name}(${args.map((_, i) => `$${i + 1}`)}) AS answer`, args)).rows[0].answer);

class Permanent extends Error {} // trying again cannot mend it

const heartbeat = setInterval(async () => {
  const run = current;
  if (!run) return;
  const lost = await db.query("SELECT moves.heartbeat($1, $2, $3, $4)", [worker, lease, [run.id], [run.try]]).catch(() => undefined);
  if (lost?.rows.some((row) => row.heartbeat === run.try) && run === current) run.end.abort("fenced");
}, (seconds / 3) * 1000);

const encode = (run, number, body) => DocumentRequest.encode(DocumentRequest.fromObject({
  connectorId: run.connector, chunkingSession: run.id, try: run.try, configVersion: run.version, number, ...body })).finish();

// send publishes the next message of the try, or sync completed where the body has a total, and returns its place in the stream.
async function send(run, body, data) {
  const number = body.completed ? 0 : ++run.number;
  data ??= encode(run, number, body);
  const h = headers();
  for (const [k, v] of Object.entries({ Session: run.id, Try: run.try, Number: `${number}`, Type: type })) h.set(`Echomind-${k}`, v);
  const ack = await again(run, () => { run.signal.throwIfAborted(); return js.publish("document.process", data, { headers: h }); });
  run.sent = number, run.seq = ack.seq;
  return ack;
}

// A chunk ends where a paragraph does, or else a line, or a word; in the worst case between two letters. All places are in bytes.
function* chunksOf(bytes) {
  for (let start = 0, end; start < bytes.length; start = end) {
    end = Math.min(start + chunkBytes, bytes.length);
    if (end < bytes.length) {
      const mark = ["\n\n", "\n\r\n", "\n", " "].find((m) => bytes.lastIndexOf(m, end - m.length) >= start);
      if (mark) end = bytes.lastIndexOf(mark, end - mark.length) + mark.length;
      else while ((bytes[end] & 0xc0) === 0x80) end--;
    }
    yield { text: bytes.toString("utf8", start, end), start, end };
  }
}

// What of a book does not fit into one message travels in several parts with neighbouring numbers. All of them are made before
// one is sent: a book that is too large for its messages fails, and nothing else does.
async function put(run, url, book, text) {
  const parts = [{ firstChunk: 0, chunks: [] }];
  let size = 0, count = 0;
  for (const chunk of chunksOf(Buffer.from(clean(text)))) {
    const more = chunk.end - chunk.start + 64; // its places, too
    if ((size += more) > partBytes) size = more, parts.push({ firstChunk: count, chunks: [] });
    parts.at(-1).chunks.push(chunk), count++;
  }
  const first = run.number + 1;
  const about = { sourceId: book.id, title: clean(book.title, 250), url, mediaType: "text/plain", firstNo: first };
  const whole = { ...about, versionToken: book.version, contentHash: createHash("sha256").update(text).digest("hex"),
    parts: parts.length, chunkCount: count };
  let messages = parts.map((part, i) => encode(run, first + i, { part: { ...whole, ...part } }));
  const largest = Math.max(...messages.map((m) => m.length));
  if (largest > messageBytes) {
    messages = [encode(run, first, { part: { ...about, parts: 1, error: `a message of it has ${largest} bytes, more than ${messageBytes}` } })];
  }
  for (const message of messages) await send(run, {}, message);
}

// known is what is stored, by book: its version, or nothing where it has to be fetched again.
async function known(run) {
  const books = new Map(), page = 1000;
  for (let after = "", rows; rows?.length !== 0 && books.size % page === 0; after = rows.at(-1)?.source_id) {
    ({ rows } = await again(run, () => db.query("SELECT source_id, version_token FROM moves.known($1, $2, $3, $4)", [run.id, run.try, after, page])));
    for (const row of rows) books.set(row.source_id, row.version_token);
  }
  return books;
}

async function sync(run, config) {
  if (!/^https?:/.test(config.url)) throw new Permanent("config.url must be the library's URL: change the connector's config");
  const get = async (path) => {
    const answer = await fetch(config.url + path, { signal: run.signal });
    if (answer.ok) return answer;
    throw new (answer.status === 429 || answer.status >= 500 ? Error : Permanent)(`${config.url + path}: ${answer.status}`);
  };
  const listed = await (await get("/books")).json(), books = await known(run), ids = new Set(listed.map((b) => b.id));
  let unchanged = 0, sent = 0;
  for (const book of listed) {
    if (books.get(book.id) === book.version) { unchanged++; continue; }
    const path = `/books/${encodeURIComponent(book.id)}`;
    await put(run, config.url + path, book, await (await get(path)).text());
    // Everything sent before this is stored once it is the connector's state: the run has come this far.
    if (++sent % checkpointEvery === 0) await send(run, { checkpoint: { state: struct({ sent: book.id }) } });
  }
  for (const id of [...books.keys()].filter((id) => !ids.has(id))) // only now: the listing was whole
    await send(run, { deletion: { sourceId: id } });
  const { seq } = await send(run, { completed: { total: run.number, newState: struct({}), listingWhole: true, unchanged } });
  await move(run, "drain", run.id, run.try, seq); // from here on it is semantic's
  log("fetched", { run: run.id, messages: run.number, unchanged });
}

async function receive(message) {
  let request;
  try {
    request = SyncRequest.decode(message.data);
  } catch (err) { // it can never be handled
    const h = headers();
    h.set("Echomind-Session", message.headers?.get("Echomind-Session") ?? ""), h.set("Echomind-Reason", clean(err.message, 300));
    await again({ message }, () => js.publish(`dlq.${message.subject}`, message.data, { headers: h }));
    return message.ack();
  }
  const run = { id: request.chunkingSession, try: randomUUID(), connector: request.connectorId, version: request.configVersion,
    number: 0, end: new AbortController() };
  if (!await move({ message }, "pick_up", run.connector, run.id, run.try, worker, lease)) return message.ack(); // old news
  message.ack();
  run.signal = run.end.signal;
  current = run;
  log("picked up", { run: run.id, try: run.try });
  const tooLong = setTimeout(() => run.end.abort("too long"), longest * 1000);
  try {
    if (stopping) run.end.abort("stopping");
    await sync(run, object(request.config));
  } catch (err) {
    const why = run.signal.reason;
    log("ended", { run: run.id, why: why ?? err.message });
    if (why === "stopping") await move({}, "release", run.id, run.try);
    else if (why === "too long" && run.sent) await move({}, "cut", run.id, run.try, run.sent, run.seq, `it took longer than ${longest} s`);
    else if (why !== "fenced") {
      const kind = why === "too long" ? "too_long" : err instanceof Permanent ? "permanent" : "transient";
      await move({}, "fail", run.id, run.try, kind, clean(err.message ?? err, 2000));
    }
  } finally { // also where its end could not be written down: a run that no heartbeat names is found lost
    clearTimeout(tooLong);
    current = undefined;
  }
}

for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => {
  stopping = true, patience = Date.now() + 5_000;
  current?.end.abort("stopping");
  setTimeout(() => process.exit(1), 15_000).unref();
});

for (let consumer; !stopping;) {
  try {
    consumer ??= js.consumers.getConsumerFromInfo(await jsm.consumers.add("CONNECTOR_SYNC", {
      durable_name: `sync_${type}`, filter_subject: `connector.sync.${type}`, ack_policy: "explicit", deliver_policy: "all",
      ack_wait: nanos(15_000), max_deliver: -1, max_ack_pending: -1, max_waiting: 512 }));
    const message = await consumer.next({ expires: 2_000 });
    if (message) await receive(message);
  } catch (err) {
    log("pulling again", { why: err.message });
    consumer = undefined;
    await sleep(1_000);
  }
}
clearInterval(heartbeat);
await nc.drain();
await db.end();
log("stopped");
