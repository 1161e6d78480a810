// Runs records in a WebAssembly build of the kernels for wasm.py: node [flags] wasm_host.mjs LIBRARY
// stdin: uint32 length, then a launch record, then the bytes of its arrays. stdout: int32 code, then these bytes again.
import fs from "node:fs"; // not node:process: importing it opens stdin anew, and reads no longer wait

const RECORD_BYTES = 248;
const STACK_TOP = 1 << 20; // below: the stack, as in a page; then the library's data; then record and arrays
const LIBRARY_DATA = 2 << 20;
const RECORD = 4 << 20;
const ARRAYS = 8 << 20; // wasm.py counts on it

function load(path) {
  const global = (value, mutable) => new WebAssembly.Global({ value: "i32", mutable }, value);
  const memory = new WebAssembly.Memory({ initial: 4096, maximum: 16384 });
  const env = {
    memory,
    __indirect_function_table: new WebAssembly.Table({ initial: 1024, element: "anyfunc" }),
    __stack_pointer: global(STACK_TOP, true),
    __memory_base: global(LIBRARY_DATA, false),
    __table_base: global(1, false),
    getenv: () => 0,
    posix_memalign: () => 12, // ENOMEM: kernels allocate nothing
    free: () => {},
  };
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(fs.readFileSync(path)), { env });
  exports.__wasm_apply_data_relocs?.();
  exports.__wasm_call_ctors?.();
  return { memory, exports };
}

function read(length) {
  const buffer = Buffer.alloc(length);
  for (let at = 0; at < length; ) {
    const count = fs.readSync(0, buffer, at, length - at, null);
    if (count === 0) process.exit(0);
    at += count;
  }
  return buffer;
}

function write(buffer) {
  for (let at = 0; at < buffer.length; ) at += fs.writeSync(1, buffer, at);
}

const { memory, exports } = load(process.argv[2]);
const bytes = new Uint8Array(memory.buffer);
const name = exports.pyapp_signature();
write(Buffer.from(bytes.slice(name, bytes.indexOf(0, name))));
for (;;) {
  const request = read(read(4).readUInt32LE(0));
  const size = request.length - RECORD_BYTES;
  bytes.set(request.subarray(0, RECORD_BYTES), RECORD);
  bytes.set(request.subarray(RECORD_BYTES), ARRAYS);
  const answer = Buffer.alloc(4 + size);
  answer.writeInt32LE(exports.pyapp_run(RECORD, 1), 0);
  answer.set(bytes.subarray(ARRAYS, ARRAYS + size), 4);
  write(answer);
}
