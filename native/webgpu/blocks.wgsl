// Weights in blocks: products with rows that quantize_rows has made, packing, and rows as float32. Layouts: kernels.h, bands.h.

const BAND = 8;
const ACTIVATION_WORDS = 10; // 32 int8, their scale and their sum

// The largest multiple of a quantised block, and whether it has one.
fn scale_of(most: f32) -> f32 { return most / 127.0; }
fn away_from_zero(x: f32) -> i32 { return i32(trunc(x)) + i32(x - trunc(x) >= 0.5) - i32(x - trunc(x) <= -0.5); }
fn packed_bytes(v: vec4<i32>) -> u32 {
  return (u32(v.x) & 0xffu) | ((u32(v.y) & 0xffu) << 8u) | ((u32(v.z) & 0xffu) << 16u) | ((u32(v.w) & 0xffu) << 24u);
}
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
TAKES(linear_blocks, (type == 2) + (type == 12))
var<workgroup> sums: array<vec4<f32>, 64>;
const WORDS = select(296, 36, type == 2); // of a block of a band
// The product of 32 columns of row r of a band with the activations at word xq. Type 2 is q4_0, 12 q4_K, of 256 columns.
fn product(band: i32, b: i32, blocks: i32, r: i32, xq: i32) -> f32 {
  var at = (band * blocks + b) * WORDS + 4;
  var large = 0;
  if (type == 12) {
    large = (band * (blocks / 8) + b / 8) * WORDS;
    at = large + 8 + b % 8 * 36 + 4;
  }
  var dot = 0;
  for (var s = 0; s < 4; s++) {
    let w = w_u(at + s * 8 + r);
    dot += dot_bytes(low_nibbles(w), xq_u(xq + s)) + dot_bytes(high_nibbles(w), xq_u(xq + s + 4));
  }
  let sum = xq_i(xq + 9);
  if (type == 2) { return f32(dot - 8 * sum) * (f32_of_half(w_h(2 * (at - 4) + r)) * xq_f(xq + 8)); }
  let scale = f32_of_half(w_h(2 * large + r)) * f32(w_b(4 * (at - 4) + r));
  let least = f32_of_half(w_h(2 * large + 8 + r)) * f32(w_b(4 * (at - 4) + 8 + r));
  return (f32(dot) * scale - f32(sum) * least) * xq_f(xq + 8);
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

KERNEL(pack_blocks, MIN(PARTS(PARTS(rows, 8) * CHOOSE(type == 2, columns / 32 * 36, columns / 256 * 296), 256), 16384), 256, type)
TAKES(pack_blocks, (type == 2) + (type == 12))
const WORDS = select(296, 36, type == 2);
const SPAN = select(256, 32, type == 2);
// Scale or minimum k of a q4_K block at byte `at`: six bits.
fn six_bits(at: i32, k: i32, minimum: bool) -> u32 {
  let low = at + 4 + select(0, 4, minimum);
  if (k < 4) { return blocks_b(low + k) & 63u; }
  let four = blocks_b(at + 8 + k);
  return select(four & 15u, four >> 4u, minimum) | ((blocks_b(low + k - 4) >> 6u) << 4u);
}
MAIN {
  let each = columns / SPAN;
  FOR_EACH(i, (rows + 7) / 8 * each * WORDS) {
    let word = i % WORDS;
    let b = i / WORDS % each;
    let band = i / WORDS / each * 8;
    var v = 0u;
    if (type == 2) {
      if (word < 4) {
        for (var e = 0; e < 2; e++) {
          let row = band + 2 * word + e;
          if (row < rows) { v |= blocks_h((row * each + b) * 9) << u32(16 * e); }
        }
      } else {
        let row = band + (word - 4) % 8;
        let at = (row * each + b) * 9 + 1 + (word - 4) / 8 * 2;
        if (row < rows) { v = blocks_h(at) | (blocks_h(at + 1) << 16u); }
      }
    } else if (word < 8) {
      for (var e = 0; e < 2; e++) {
        let row = band + 2 * (word % 4) + e;
        if (row < rows) { v |= blocks_h((row * each + b) * 72 + word / 4) << u32(16 * e); }
      }
    } else {
      let run = (word - 8) / 36;
      let place = (word - 8) % 36;
      if (place < 4) {
        for (var e = 0; e < 4; e++) {
          let row = band + place % 2 * 4 + e;
          if (row < rows) { v |= six_bits((row * each + b) * 144, run, place >= 2) << u32(8 * e); }
        }
      } else {
        let row = band + (place - 4) % 8;
        let s = (place - 4) / 8;
        let at = (row * each + b) * 144 + 16 + run / 2 * 32 + 4 * s;
        if (row < rows) {
          let low = blocks_u(at / 4) >> u32(4 * (run % 2));
          let high = blocks_u(at / 4 + 4) >> u32(4 * (run % 2));
          v = low_nibbles(low) | (low_nibbles(high) << 4u);
        }
      }
    }
    packed_put_u(i, v);
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
TAKES(unpack_blocks, (type == 2) + (type == 12))
fn value(row: i32, c: i32) -> f32 {
  let r = row % 8;
  let s = c % 32 / 4;
  if (type == 2) {
    let at = (row / 8 * (columns / 32) + c / 32) * 36;
    let nibble = (blocks_u(at + 4 + s % 4 * 8 + r) >> u32(8 * (c % 4) + 4 * (s / 4))) & 15u;
    return f32_of_half(blocks_h(2 * at + r)) * f32(i32(nibble) - 8);
  }
  let large = (row / 8 * (columns / 256) + c / 256) * 296;
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
TAKES(embedding_blocks, (type == 2) + (type == 12))
fn value(row: i32, c: i32) -> f32 {
  let r = row % 8;
  let s = c % 32 / 4;
  if (type == 2) {
    let at = (row / 8 * (columns / 32) + c / 32) * 36;
    let nibble = (w_u(at + 4 + s % 4 * 8 + r) >> u32(8 * (c % 4) + 4 * (s / 4))) & 15u;
    return f32_of_half(w_h(2 * at + r)) * f32(i32(nibble) - 8);
  }
  let large = (row / 8 * (columns / 256) + c / 256) * 296;
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
