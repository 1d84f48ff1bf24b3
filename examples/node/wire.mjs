// The messages of contract/proto/echomind, read from the .proto files themselves.
import { fileURLToPath } from "node:url";
import protobuf from "protobufjs";

const protos = process.env.PROTO_ROOT ?? fileURLToPath(new URL("../../proto", import.meta.url));
const root = new protobuf.Root();
root.resolvePath = (_, file) => (file.startsWith("google/") ? file : `${protos}/${file}`);
await root.load("echomind/internal/sync.proto");
export const SyncRequest = root.lookupType("echomind.internal.ConnectorSyncRequest");
export const DocumentRequest = root.lookupType("echomind.internal.DocumentProcessRequest");

// Google's Struct as a plain object, and back.
const plain = (v) => v.kind === "structValue" ? object(v.structValue) : v.kind === "listValue" ? v.listValue.values.map(plain)
  : v.kind === "nullValue" ? null : v[v.kind];
export const object = (s) => Object.fromEntries(Object.entries(s?.fields ?? {}).map(([k, v]) => [k, plain(v)]));
const value = (v) => typeof v === "string" ? { stringValue: v } : typeof v === "number" ? { numberValue: v }
  : typeof v === "boolean" ? { boolValue: v } : v === null ? { nullValue: 0 }
  : Array.isArray(v) ? { listValue: { values: v.map(value) } } : { structValue: struct(v) };
export const struct = (o) => ({ fields: Object.fromEntries(Object.entries(o).map(([k, v]) => [k, value(v)])) });
