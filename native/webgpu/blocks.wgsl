// Weights in blocks: packing, quantising, and rows as float32. Layouts: kernels.h, bands.h.

const BAND = 8;

fn away_from_zero(x: f32) -> i32 { return i32(trunc(x)) + i32(x - trunc(x) >= 0.5) - i32(x - trunc(x) <= -0.5); }
fn packed_bytes(v: vec4<i32>) -> u32 {
  return (u32(v.x) & 0xffu) | ((u32(v.y) & 0xffu) << 8u) | ((u32(v.z) & 0xffu) << 16u) | ((u32(v.w) & 0xffu) << 24u);
}
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

ALSO(quantize_rows_f16, quantize_rows, x_f(at) => f32_of_half(x_h(at)))
ALSO(quantize_rows_bf16, quantize_rows, x_f(at) => f32_of_bfloat(x_h(at)))

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
    let row = i / columns;
    let to = i;
    y_put(to, value(row, i % columns));
  }
}

ALSO(unpack_q8_group, unpack_q8_0, * 68 => * 72, at + 4 + c => at + 8 + c, f32_of_half(packed_h(2 * at + r)) => packed_f(at + r))
ALSO(embedding_q8_0, unpack_q8_0, packed_ => w_, rows * columns => tokens * columns,
     let row = i / columns; => let row = ids_i(i / columns); if (row < 0 || row >= vocabulary) { fail(INDEX_RANGE); continue; },
     let to = i; => let to = i / columns * y_stride + i % columns;)

ALSO(embedding_q8_group, unpack_q8_group, packed_ => w_, rows * columns => tokens * columns,
     let row = i / columns; => let row = ids_i(i / columns); if (row < 0 || row >= vocabulary) { fail(INDEX_RANGE); continue; },
     let to = i; => let to = i / columns * y_stride + i % columns;)

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
    let row = i / columns;
    let to = i;
    y_put(to, value(row, i % columns));
  }
}

ALSO(embedding_blocks, unpack_blocks, blocks_ => w_, rows * columns => tokens * columns,
     let row = i / columns; => let row = ids_i(i / columns); if (row < 0 || row >= vocabulary) { fail(INDEX_RANGE); continue; },
     let to = i; => let to = i / columns * y_stride + i % columns;)
