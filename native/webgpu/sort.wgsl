// Sorting along a dim: a group has a line, whose entries it exchanges (Batcher 1968, the bitonic network).

KERNEL(sort, MIN(outer * inner, 64), 256, type, few=length <= 1024)
TAKES(sort, (type == TYPE_float32) + (type == TYPE_float16) + (type == TYPE_bfloat16) + (type < 9) * (type != TYPE_uint64))
ATOMIC(sort, (type != TYPE_float32) * (type != TYPE_int32) * (type != TYPE_uint32) * (type != TYPE_int64))
BETWEEN(sort, CHOOSE(length <= 1024, 4, MIN(outer * inner, 64) * 24 * length))
// An entry: the key, whose order is that of the values, in two words, and the index, so that no two are equal.
var<workgroup> entries: array<u32, 3072>;
var<private> begin: i32;
fn entry(i: i32) -> vec3<u32> {
  if (few == 1) { return vec3<u32>(entries[3 * i], entries[3 * i + 1], entries[3 * i + 2]); }
  return vec3<u32>(between_u(begin + 3 * i), between_u(begin + 3 * i + 1), between_u(begin + 3 * i + 2));
}
fn store(i: i32, e: vec3<u32>) {
  for (var k = 0; k < 3; k++) {
    if (few == 1) { entries[3 * i + k] = e[k]; } else { between_put_u(begin + 3 * i + k, e[k]); }
  }
}
fn goes_first(a: vec3<u32>, b: vec3<u32>) -> bool {
  if (a.x != b.x) { return a.x < b.x; }
  if (a.y != b.y) { return a.y < b.y; }
  return a.z < b.z;
}
// NaN is the largest, and -0 is 0.
fn key_of(e: vec2<u32>) -> vec2<u32> {
  if (!is_float(type)) {
    let w = whole_of(e, type);
    return vec2<u32>(w.y ^ 0x80000000u, w.x);
  }
  let v = float_of(e, type);
  if (is_nan(v)) { return vec2<u32>(0xffffffffu, 0u); }
  let bits = select(bitcast<u32>(v), 0u, v == 0.0);
  return vec2<u32>(select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u), 0u);
}
fn wait() {
  if (few == 1) { workgroupBarrier(); } else { storageBarrier(); }
}
MAIN {
  let workers = min(outer * inner, 64);
  if (gid >= workers) { return; }
  begin = gid * 6 * length;
  var padded = 1;
  while (padded < length) { padded *= 2; }
  for (var line = gid; line < outer * inner; line += workers) {
    let at = line / inner * x_outer + line % inner * x_inner;
    wait();
    for (var i = tid; i < padded; i += THREADS) {
      var e = vec3<u32>(0xffffffffu, 0xffffffffu, 0xffffffffu); // behind all others
      if (i < length) {
        var key = key_of(x_el(at + i * x_dim, type_bytes));
        if (descending == 1) { key = ~key; }
        e = vec3<u32>(key, u32(i));
      }
      store(i, e);
    }
    wait();
    for (var k = 2; k <= padded; k *= 2) {
      for (var j = k / 2; j > 0; j /= 2) {
        for (var i = tid; i < padded; i += THREADS) {
          let other = i ^ j;
          if (other > i) {
            let a = entry(i);
            let b = entry(other);
            if (goes_first(b, a) == ((i & k) == 0)) {
              store(i, b);
              store(other, a);
            }
          }
        }
        wait();
      }
    }
    for (var i = tid; i < count; i += THREADS) {
      let index = entry(i).z;
      let to = (line / inner * count + i) * inner + line % inner;
      if (indices_given) { indices_put_el(to, 8, vec2<u32>(index, 0u)); }
      if (y_given) { y_put_el(to, type_bytes, x_el(at + i32(index) * x_dim, type_bytes)); }
    }
  }
}
