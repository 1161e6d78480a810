// Weights in blocks: products with rows that quantize_rows has made, packing, and rows as float32. Layouts: kernels.h, bands.h.

const BAND = 8;
const ACTIVATION_WORDS = 10; // 32 int8, their scale and their sum

// The largest multiple of a quantised block, and whether it has one.
fn scale_of(most: f32) -> f32 { return most / 127.0; }
fn away_from_zero(x: f32) -> i32 { return i32(trunc(x)) + i32(x - trunc(x) >= 0.5) - i32(x - trunc(x) <= -0.5); }
fn packed_bytes(v: vec4<i32>) -> u32 {
  return (u32(v.x) & 0xffu) | ((u32(v.y) & 0xffu) << 8u) | ((u32(v.z) & 0xffu) << 16u) | ((u32(v.w) & 0xffu) << 24u);
}
// Types of kernels.h's blocks: q4_0, and q4_K and q6_K, whose blocks have 256 columns in eight runs of 32.
const Q4_0 = 2;
const Q4_K = 12;
const Q6_K = 14;
// Words of a block of a band, and of a run in it.
fn words_of(kind: i32) -> i32 { return select(select(420, 296, kind == Q4_K), 36, kind == Q4_0); }
fn run_words(kind: i32) -> i32 { return select(52, 36, kind != Q6_K); }
fn low_nibbles(w: u32) -> u32 { return w & 0x0f0f0f0fu; }
fn high_nibbles(w: u32) -> u32 { return (w >> 4u) & 0x0f0f0f0fu; }

KERNEL(quantize_rows, MIN(PARTS(rows * PARTS(columns, 32), 64), 16384), 64)
fn value(row: i32, column: i32) -> f32 {
  let at = row * x_stride + column;
  if (column < columns) { return x_f(at); }
  return 0.0;
}
MAIN {
  let blocks = (columns + 31) / 32;
  FOR_EACH(i, rows * blocks) {
    let row = i / blocks;
    let c = i % blocks * 32;
    var most = 0u;
    for (var e = 0; e < 32; e++) { most = max(most, bitcast<u32>(value(row, c + e)) & 0x7fffffffu); }
    let finite = most < INFINITY_BITS;
    var scale = bitcast<f32>(most) / 127.0;
    let usable = finite && scale > 5.9e-39;
    let inverse = select(0.0, 1.0 / scale, usable);
    var sum = 0;
    for (var s = 0; s < 8; s++) {
      var v = vec4<i32>(0, 0, 0, 0);
      if (usable) {
        for (var e = 0; e < 4; e++) { v[e] = away_from_zero(value(row, c + 4 * s + e) * inverse); }
      }
      sum += v.x + v.y + v.z + v.w;
      xq_put_u(i * ACTIVATION_WORDS + s, packed_bytes(v));
    }
    if (!usable) { scale = 0.0; }
    if (!finite) { scale = nan(); }
    xq_put(i * ACTIVATION_WORDS + 8, scale);
    xq_put_u(i * ACTIVATION_WORDS + 9, u32(sum));
  }
}

KERNEL(quantize_rows_f16, MIN(PARTS(rows * PARTS(columns, 32), 64), 16384), 64)
fn value(row: i32, column: i32) -> f32 {
  let at = row * x_stride + column;
  if (column < columns) { return f32_of_half(x_h(at)); }
  return 0.0;
}
MAIN {
  let blocks = (columns + 31) / 32;
  FOR_EACH(i, rows * blocks) {
    let row = i / blocks;
    let c = i % blocks * 32;
    var most = 0u;
    for (var e = 0; e < 32; e++) { most = max(most, bitcast<u32>(value(row, c + e)) & 0x7fffffffu); }
    let finite = most < INFINITY_BITS;
    var scale = bitcast<f32>(most) / 127.0;
    let usable = finite && scale > 5.9e-39;
    let inverse = select(0.0, 1.0 / scale, usable);
    var sum = 0;
    for (var s = 0; s < 8; s++) {
      var v = vec4<i32>(0, 0, 0, 0);
      if (usable) {
        for (var e = 0; e < 4; e++) { v[e] = away_from_zero(value(row, c + 4 * s + e) * inverse); }
      }
      sum += v.x + v.y + v.z + v.w;
      xq_put_u(i * ACTIVATION_WORDS + s, packed_bytes(v));
    }
    if (!usable) { scale = 0.0; }
    if (!finite) { scale = nan(); }
    xq_put(i * ACTIVATION_WORDS + 8, scale);
    xq_put_u(i * ACTIVATION_WORDS + 9, u32(sum));
  }
}

KERNEL(quantize_rows_bf16, MIN(PARTS(rows * PARTS(columns, 32), 64), 16384), 64)
fn value(row: i32, column: i32) -> f32 {
  let at = row * x_stride + column;
  if (column < columns) { return f32_of_bfloat(x_h(at)); }
  return 0.0;
}
MAIN {
  let blocks = (columns + 31) / 32;
  FOR_EACH(i, rows * blocks) {
    let row = i / blocks;
    let c = i % blocks * 32;
    var most = 0u;
    for (var e = 0; e < 32; e++) { most = max(most, bitcast<u32>(value(row, c + e)) & 0x7fffffffu); }
    let finite = most < INFINITY_BITS;
    var scale = bitcast<f32>(most) / 127.0;
    let usable = finite && scale > 5.9e-39;
    let inverse = select(0.0, 1.0 / scale, usable);
    var sum = 0;
    for (var s = 0; s < 8; s++) {
      var v = vec4<i32>(0, 0, 0, 0);
      if (usable) {
        for (var e = 0; e < 4; e++) { v[e] = away_from_zero(value(row, c + 4 * s + e) * inverse); }
      }
      sum += v.x + v.y + v.z + v.w;
      xq_put_u(i * ACTIVATION_WORDS + s, packed_bytes(v));
    }
    if (!usable) { scale = 0.0; }
    if (!finite) { scale = nan(); }
    xq_put(i * ACTIVATION_WORDS + 8, scale);
    xq_put_u(i * ACTIVATION_WORDS + 9, u32(sum));
  }
}

KERNEL(linear_q8_0, PARTS(rows, 4) * PARTS(outputs, 8), 64)
var<workgroup> sums: array<vec4<f32>, 64>;
const WORDS = 68; // of a block of a band
// The product of block b of row r of a band with the activations at word xq.
fn product(band: i32, b: i32, blocks: i32, r: i32, xq: i32) -> f32 {
  let at = (band * blocks + b) * WORDS;
  var dot = 0;
  for (var s = 0; s < 8; s++) { dot += dot_bytes(w_u(at + 4 + s * 8 + r), xq_u(xq + s)); }
  return f32(dot) * (f32_of_half(w_h(2 * at + r)) * xq_f(xq + 8));
}
MAIN {
  let bands = (outputs + 7) / 8;
  let m0 = gid / bands * 4;
  let band = gid % bands;
  let blocks = (inputs + 31) / 32;
  let r = tid % 8;
  var s = vec4<f32>();
  for (var b = tid / 8; b < blocks; b += 8) {
    for (var i = 0; i < 4; i++) {
      if (m0 + i < rows) { s[i] += product(band, b, blocks, r, ((m0 + i) * blocks + b) * ACTIVATION_WORDS); }
    }
  }
  sums[tid] = s;
  workgroupBarrier();
  let n = band * 8 + tid;
  if (tid < 8 && n < outputs) {
    for (var i = 1; i < 8; i++) { s += sums[tid + 8 * i]; }
    for (var i = 0; i < 4; i++) {
      let m = m0 + i;
      if (m < rows) {
        var v = s[i];
        if (residual_given) { v += residual_f(m * residual_stride + n); }
        y_put(m * y_stride + n, v);
      }
    }
  }
}

KERNEL(linear_q8_group, PARTS(rows, 4) * PARTS(outputs, 8), 64)
var<workgroup> sums: array<vec4<f32>, 64>;
const WORDS = 72; // of a block of a band
// The product of block b of row r of a band with the activations at word xq.
fn product(band: i32, b: i32, blocks: i32, r: i32, xq: i32) -> f32 {
  let at = (band * blocks + b) * WORDS;
  var dot = 0;
  for (var s = 0; s < 8; s++) { dot += dot_bytes(w_u(at + 8 + s * 8 + r), xq_u(xq + s)); }
  return f32(dot) * (w_f(at + r) * xq_f(xq + 8));
}
MAIN {
  let bands = (outputs + 7) / 8;
  let m0 = gid / bands * 4;
  let band = gid % bands;
  let blocks = (inputs + 31) / 32;
  let r = tid % 8;
  var s = vec4<f32>();
  for (var b = tid / 8; b < blocks; b += 8) {
    for (var i = 0; i < 4; i++) {
      if (m0 + i < rows) { s[i] += product(band, b, blocks, r, ((m0 + i) * blocks + b) * ACTIVATION_WORDS); }
    }
  }
  sums[tid] = s;
  workgroupBarrier();
  let n = band * 8 + tid;
  if (tid < 8 && n < outputs) {
    for (var i = 1; i < 8; i++) { s += sums[tid + 8 * i]; }
    for (var i = 0; i < 4; i++) {
      let m = m0 + i;
      if (m < rows) {
        var v = s[i];
        if (residual_given) { v += residual_f(m * residual_stride + n); }
        y_put(m * y_stride + n, v);
      }
    }
  }
}

KERNEL(linear_blocks, PARTS(rows, 4) * PARTS(outputs, 8), 64, type)
TAKES(linear_blocks, (type == 2) + (type == 12) + (type == 14))
var<workgroup> sums: array<vec4<f32>, 64>;
// Six bits of each byte as signed bytes: less 32.
fn less_32(w: u32) -> u32 {
  let t = w ^ 0x20202020u;
  let sign = t & 0x20202020u;
  return t | (sign << 1u) | (sign << 2u);
}
// The product of 32 columns of row r of a band with the activations at word xq.
fn product(band: i32, b: i32, blocks: i32, r: i32, xq: i32) -> f32 {
  let scale = xq_f(xq + 8);
  if (type == Q4_0) {
    let at = (band * blocks + b) * words_of(type);
    return f32(nibble_product(at + 4, r, xq) - 8 * xq_i(xq + 9)) * (f32_of_half(w_h(2 * at + r)) * scale);
  }
  let large = (band * (blocks / 8) + b / 8) * words_of(type);
  if (type == Q4_K) {
    let at = large + 8 + b % 8 * run_words(type);
    let own = f32_of_half(w_h(2 * large + r)) * f32(w_b(4 * at + r));
    let least = f32_of_half(w_h(2 * large + 8 + r)) * f32(w_b(4 * at + 8 + r));
    return (f32(nibble_product(at + 4, r, xq)) * own - f32(xq_i(xq + 9)) * least) * scale;
  }
  let at = large + 4 + b % 8 * run_words(type);
  var halves = vec2<i32>(0, 0); // sixteen columns each
  for (var i = 0; i < 2; i++) {
    let u = w_u(at + 4 + i * 8 + r);
    let v = w_u(at + 4 + (2 + i) * 8 + r);
    let x = w_u(at + 4 + (4 + i) * 8 + r);
    let rest = ((u >> 2u) & 0x30303030u) | ((v >> 4u) & 0x0c0c0c0cu) | ((x >> 6u) & 0x03030303u);
    halves.x += dot_bytes(less_32(u & 0x3f3f3f3fu), xq_u(xq + i)) + dot_bytes(less_32(x & 0x3f3f3f3fu), xq_u(xq + i + 2));
    halves.y += dot_bytes(less_32(v & 0x3f3f3f3fu), xq_u(xq + i + 4)) + dot_bytes(less_32(rest), xq_u(xq + i + 6));
  }
  let first = extractBits(i32(w_b(4 * at + r)), 0u, 8u);
  let second = extractBits(i32(w_b(4 * at + 8 + r)), 0u, 8u);
  return f32(halves.x * first + halves.y * second) * (f32_of_half(w_h(2 * large + r)) * scale);
}
fn nibble_product(at: i32, r: i32, xq: i32) -> i32 {
  var dot = 0;
  for (var s = 0; s < 4; s++) {
    let w = w_u(at + s * 8 + r);
    dot += dot_bytes(low_nibbles(w), xq_u(xq + s)) + dot_bytes(high_nibbles(w), xq_u(xq + s + 4));
  }
  return dot;
}
MAIN {
  let bands = (outputs + 7) / 8;
  let m0 = gid / bands * 4;
  let band = gid % bands;
  let blocks = (inputs + 31) / 32;
  let r = tid % 8;
  var s = vec4<f32>();
  for (var b = tid / 8; b < blocks; b += 8) {
    for (var i = 0; i < 4; i++) {
      if (m0 + i < rows) { s[i] += product(band, b, blocks, r, ((m0 + i) * blocks + b) * ACTIVATION_WORDS); }
    }
  }
  sums[tid] = s;
  workgroupBarrier();
  let n = band * 8 + tid;
  if (tid < 8 && n < outputs) {
    for (var i = 1; i < 8; i++) { s += sums[tid + 8 * i]; }
    for (var i = 0; i < 4; i++) {
      let m = m0 + i;
      if (m < rows) {
        var v = s[i];
        if (residual_given) { v += residual_f(m * residual_stride + n); }
        y_put(m * y_stride + n, v);
      }
    }
  }
}

KERNEL(pack_q8_0, MIN(PARTS(PARTS(rows, 8) * (columns / 32) * 68, 256), 16384), 256)
MAIN {
  let each = columns / 32;
  FOR_EACH(i, (rows + 7) / 8 * each * 68) {
    let word = i % 68;
    let b = i / 68 % each;
    let band = i / 68 / each * 8;
    var v = 0u;
    if (word < 4) {
      for (var e = 0; e < 2; e++) {
        let row = band + 2 * word + e;
        if (row < rows) { v |= blocks_h((row * each + b) * 17) << u32(16 * e); }
      }
    } else {
      let row = band + (word - 4) % 8;
      let at = (row * each + b) * 34 + 2 + (word - 4) / 8 * 4;
      if (row < rows) { v = blocks_h(at / 2) | (blocks_h(at / 2 + 1) << 16u); }
    }
    packed_put_u(i, v);
  }
}

KERNEL(pack_q8_group, MIN(PARTS(PARTS(rows, 8) * PARTS(columns, 32) * 72, 256), 16384), 256)
MAIN {
  let each = (columns + 31) / 32;
  FOR_EACH(i, (rows + 7) / 8 * each * 72) {
    let word = i % 72;
    let b = i / 72 % each;
    let band = i / 72 / each * 8;
    var v = 0u;
    if (word < 8) {
      if (band + word < rows) { v = scales_u(((band + word) * columns + b * 32) / group); }
    } else {
      let row = band + (word - 8) % 8;
      for (var e = 0; e < 4; e++) {
        let c = b * 32 + (word - 8) / 8 * 4 + e;
        if (row < rows && c < columns) { v |= quants_b(row * columns + c) << u32(8 * e); }
      }
    }
    packed_put_u(i, v);
  }
}

KERNEL(pack_blocks, MIN(PARTS(PARTS(rows, 8) * CHOOSE(type == 2, columns / 32 * 36, columns / 256 * CHOOSE(type == 12, 296, 420)), 256), 16384), 256, type)
TAKES(pack_blocks, (type == 2) + (type == 12) + (type == 14))
const SPAN = select(256, 32, type == Q4_0);
const BYTES = select(select(210, 144, type == Q4_K), 18, type == Q4_0); // of a block as files store it
// Six bits of column c of run k of a q6_K block at byte `at`.
fn number_of(at: i32, k: i32, c: i32) -> u32 {
  let low = blocks_b(at + k / 4 * 64 + k % 2 * 32 + c) >> u32(k % 4 / 2 * 4);
  let high = blocks_b(at + 128 + k / 4 * 32 + c) >> u32(2 * (k % 4));
  return (low & 15u) | ((high & 3u) << 4u);
}
// Scale or minimum k of a q4_K block at byte `at`: six bits.
fn six_bits(at: i32, k: i32, minimum: bool) -> u32 {
  let low = at + 4 + select(0, 4, minimum);
  if (k < 4) { return blocks_b(low + k) & 63u; }
  let four = blocks_b(at + 8 + k);
  return select(four & 15u, four >> 4u, minimum) | ((blocks_b(low + k - 4) >> 6u) << 4u);
}
// The byte at which the block b of a row begins; -1 for rows that are not there.
fn block_at(row: i32, b: i32) -> i32 { return select(-1, (row * (columns / SPAN) + b) * BYTES, row < rows); }
// Word `word` of a band's block.
fn packed_word(band: i32, b: i32, word: i32) -> u32 {
  let halves = select(4, 8, type == Q4_K); // words of 16-bit scales
  var v = 0u;
  if (word < halves) {
    for (var e = 0; e < 2; e++) {
      let at = block_at(band + 2 * (word % 4) + e, b);
      if (at >= 0) { v |= blocks_h(at / 2 + select(word / 4, 104, type == Q6_K)) << u32(16 * e); }
    }
    return v;
  }
  let run = (word - halves) / run_words(type);
  let part = (word - halves) % run_words(type);
  if (type == Q4_0) {
    let at = block_at(band + (word - 4) % 8, b) / 2;
    if (band + (word - 4) % 8 < rows) { v = blocks_h(at + 1 + (word - 4) / 8 * 2) | (blocks_h(at + 2 + (word - 4) / 8 * 2) << 16u); }
    return v;
  }
  if (part < 4) {
    for (var e = 0; e < 4; e++) {
      let at = block_at(band + part % 2 * 4 + e, b);
      if (at < 0) { continue; }
      if (type == Q4_K) { v |= six_bits(at, run, part >= 2) << u32(8 * e); } else { v |= blocks_b(at + 192 + 2 * run + part / 2) << u32(8 * e); }
    }
    return v;
  }
  let at = block_at(band + (part - 4) % 8, b);
  if (at < 0) { return 0u; }
  let s = (part - 4) / 8;
  if (type == Q4_K) {
    let place = (at + 16 + run / 2 * 32) / 4 + s;
    return low_nibbles(blocks_u(place) >> u32(4 * (run % 2))) | (low_nibbles(blocks_u(place + 4) >> u32(4 * (run % 2))) << 4u);
  }
  let plane = s / 2;
  let step = s % 2 + select(4 * plane, 2, plane == 2);
  for (var e = 0; e < 4; e++) {
    let top = number_of(at, run, 4 * (s % 2 + 6) + e) >> u32(4 - 2 * plane);
    v |= (number_of(at, run, 4 * step + e) | ((top & 3u) << 6u)) << u32(8 * e);
  }
  return v;
}
MAIN {
  let each = columns / SPAN;
  FOR_EACH(i, (rows + 7) / 8 * each * words_of(type)) {
    packed_put_u(i, packed_word(i / words_of(type) / each * 8, i / words_of(type) % each, i % words_of(type)));
  }
}

KERNEL(quantize_q8_0, MIN(PARTS(PARTS(rows, 8) * PARTS(columns, 32) * 4, 64), 16384), 64)
// A thread has two rows of a block, which share the words of their scales.
fn value(row: i32, column: i32) -> f32 {
  if (row < rows && column < columns) { return x_f(row * x_stride + column); }
  return 0.0;
}
MAIN {
  let each = (columns + 31) / 32;
  FOR_EACH(i, (rows + 7) / 8 * each * 4) {
    let pair = i % 4;
    let at = i / 4 * 68;
    let c = i / 4 % each * 32;
    var scales = 0u;
    for (var e = 0; e < 2; e++) {
      let r = 2 * pair + e;
      let row = i / 4 / each * 8 + r;
      var most = 0u;
      for (var k = 0; k < 32; k++) { most = max(most, bitcast<u32>(value(row, c + k)) & 0x7fffffffu); }
      let finite = most < INFINITY_BITS;
      let scale = bitcast<f32>(most) / 127.0;
      let usable = finite && scale > 5.9e-39;
      let inverse = select(0.0, 1.0 / scale, usable);
      if (usable) { scales |= half_of_f32(scale) << u32(16 * e); }
      if (!finite) { scales |= 0x7e00u << u32(16 * e); }
      for (var s = 0; s < 8; s++) {
        var v = vec4<i32>(0, 0, 0, 0);
        if (usable) {
          for (var k = 0; k < 4; k++) { v[k] = away_from_zero(value(row, c + 4 * s + k) * inverse); }
        }
        packed_put_u(at + 4 + s * 8 + r, packed_bytes(v));
      }
    }
    packed_put_u(at + pair, scales);
  }
}

KERNEL(unpack_q8_0, MIN(PARTS(rows * columns, 256), 16384), 256)
fn value(row: i32, c: i32) -> f32 {
  let at = (row / 8 * ((columns + 31) / 32) + c / 32) * 68;
  let r = row % 8;
  return f32_of_half(packed_h(2 * at + r)) * f32(bytes_of(packed_u(at + 4 + c % 32 / 4 * 8 + r))[c % 4]);
}
MAIN {
  FOR_EACH(i, rows * columns) {
    y_put(i, value(i / columns, i % columns));
  }
}

KERNEL(embedding_q8_0, MIN(PARTS(tokens * columns, 256), 16384), 256)
fn value(row: i32, c: i32) -> f32 {
  let at = (row / 8 * ((columns + 31) / 32) + c / 32) * 68;
  let r = row % 8;
  return f32_of_half(w_h(2 * at + r)) * f32(bytes_of(w_u(at + 4 + c % 32 / 4 * 8 + r))[c % 4]);
}
MAIN {
  FOR_EACH(i, tokens * columns) {
    let t = i / columns;
    let id = ids_i(t);
    if (id < 0 || id >= vocabulary) { fail(INDEX_RANGE); continue; }
    y_put(t * y_stride + i % columns, value(id, i % columns));
  }
}

KERNEL(unpack_q8_group, MIN(PARTS(rows * columns, 256), 16384), 256)
fn value(row: i32, c: i32) -> f32 {
  let at = (row / 8 * ((columns + 31) / 32) + c / 32) * 72;
  let r = row % 8;
  return packed_f(at + r) * f32(bytes_of(packed_u(at + 8 + c % 32 / 4 * 8 + r))[c % 4]);
}
MAIN {
  FOR_EACH(i, rows * columns) {
    y_put(i, value(i / columns, i % columns));
  }
}

KERNEL(embedding_q8_group, MIN(PARTS(tokens * columns, 256), 16384), 256)
fn value(row: i32, c: i32) -> f32 {
  let at = (row / 8 * ((columns + 31) / 32) + c / 32) * 72;
  let r = row % 8;
  return w_f(at + r) * f32(bytes_of(w_u(at + 8 + c % 32 / 4 * 8 + r))[c % 4]);
}
MAIN {
  FOR_EACH(i, tokens * columns) {
    let t = i / columns;
    let id = ids_i(t);
    if (id < 0 || id >= vocabulary) { fail(INDEX_RANGE); continue; }
    y_put(t * y_stride + i % columns, value(id, i % columns));
  }
}

KERNEL(unpack_blocks, MIN(PARTS(rows * columns, 256), 16384), 256, type)
TAKES(unpack_blocks, (type == 2) + (type == 12) + (type == 14))
fn value(row: i32, c: i32) -> f32 {
  let r = row % BAND;
  let s = c % 32 / 4;
  if (type == Q4_0) {
    let at = (row / 8 * (columns / 32) + c / 32) * 36;
    let nibble = (blocks_u(at + 4 + s % 4 * 8 + r) >> u32(8 * (c % 4) + 4 * (s / 4))) & 15u;
    return f32_of_half(blocks_h(2 * at + r)) * f32(i32(nibble) - 8);
  }
  let large = (row / 8 * (columns / 256) + c / 256) * words_of(type);
  if (type == Q6_K) {
    let at = large + 4 + c % 256 / 32 * 52;
    let i = s % 2;
    let shift = u32(8 * (c % 4));
    var plane = s / 4;
    if (s % 4 >= 2) { plane = 2; }
    var number = (blocks_u(at + 4 + (2 * plane + i) * 8 + r) >> shift) & 63u;
    if (s >= 6) {
      number = 0u;
      for (var k = 0; k < 3; k++) { number |= ((blocks_u(at + 4 + (2 * k + i) * 8 + r) >> (shift + 6u)) & 3u) << u32(4 - 2 * k); }
    }
    let own = extractBits(i32(blocks_b(4 * at + s / 4 * 8 + r)), 0u, 8u);
    return f32_of_half(blocks_h(2 * large + r)) * f32(own) * f32(i32(number) - 32);
  }
  let at = large + 8 + c % 256 / 32 * 36;
  let nibble = (blocks_u(at + 4 + s % 4 * 8 + r) >> u32(8 * (c % 4) + 4 * (s / 4))) & 15u;
  let scale = f32_of_half(blocks_h(2 * large + r)) * f32(blocks_b(4 * at + r));
  return scale * f32(nibble) - f32_of_half(blocks_h(2 * large + 8 + r)) * f32(blocks_b(4 * at + 8 + r));
}
MAIN {
  FOR_EACH(i, rows * columns) {
    y_put(i, value(i / columns, i % columns));
  }
}

KERNEL(embedding_blocks, MIN(PARTS(tokens * columns, 256), 16384), 256, type)
TAKES(embedding_blocks, (type == 2) + (type == 12) + (type == 14))
fn value(row: i32, c: i32) -> f32 {
  let r = row % BAND;
  let s = c % 32 / 4;
  if (type == Q4_0) {
    let at = (row / 8 * (columns / 32) + c / 32) * 36;
    let nibble = (w_u(at + 4 + s % 4 * 8 + r) >> u32(8 * (c % 4) + 4 * (s / 4))) & 15u;
    return f32_of_half(w_h(2 * at + r)) * f32(i32(nibble) - 8);
  }
  let large = (row / 8 * (columns / 256) + c / 256) * words_of(type);
  if (type == Q6_K) {
    let at = large + 4 + c % 256 / 32 * 52;
    let i = s % 2;
    let shift = u32(8 * (c % 4));
    var plane = s / 4;
    if (s % 4 >= 2) { plane = 2; }
    var number = (w_u(at + 4 + (2 * plane + i) * 8 + r) >> shift) & 63u;
    if (s >= 6) {
      number = 0u;
      for (var k = 0; k < 3; k++) { number |= ((w_u(at + 4 + (2 * k + i) * 8 + r) >> (shift + 6u)) & 3u) << u32(4 - 2 * k); }
    }
    let own = extractBits(i32(w_b(4 * at + s / 4 * 8 + r)), 0u, 8u);
    return f32_of_half(w_h(2 * large + r)) * f32(own) * f32(i32(number) - 32);
  }
  let at = large + 8 + c % 256 / 32 * 36;
  let nibble = (w_u(at + 4 + s % 4 * 8 + r) >> u32(8 * (c % 4) + 4 * (s / 4))) & 15u;
  let scale = f32_of_half(w_h(2 * large + r)) * f32(w_b(4 * at + r));
  return scale * f32(nibble) - f32_of_half(w_h(2 * large + 8 + r)) * f32(w_b(4 * at + 8 + r));
}
MAIN {
  FOR_EACH(i, tokens * columns) {
    let t = i / columns;
    let id = ids_i(t);
    if (id < 0 || id >= vocabulary) { fail(INDEX_RANGE); continue; }
    y_put(t * y_stride + i % columns, value(id, i % columns));
  }
}
