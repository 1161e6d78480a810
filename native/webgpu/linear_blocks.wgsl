// Products of rows that quantize_rows has made with weights in bands. A group has a band, eight outputs, and up to four rows;
// eight threads share the blocks of an output.

var<workgroup> sums: array<vec4<f32>, 64>;

fn multiply(gid: i32, tid: i32, m_count: i32, n_count: i32, k_count: i32) {
  let bands = (n_count + 7) / 8;
  let m0 = gid / bands * 4;
  let band = gid % bands;
  let blocks = (k_count + 31) / 32;
  let r = tid % 8;
  var s = vec4<f32>();
  for (var b = tid / 8; b < blocks; b += 8) {
    for (var i = 0; i < 4; i++) {
      if (m0 + i < m_count) { s[i] += product(band, b, blocks, r, ((m0 + i) * blocks + b) * ACTIVATION_WORDS); }
    }
  }
  sums[tid] = s;
  workgroupBarrier();
  let n = band * 8 + tid;
  if (tid < 8 && n < n_count) {
    for (var i = 1; i < 8; i++) { s += sums[tid + 8 * i]; }
    for (var i = 0; i < 4; i++) {
      let m = m0 + i;
      if (m < m_count) {
        output(m, n, s[i]);
      }
    }
  }
}

KERNEL(linear_q8_0, PARTS(rows, 4) * PARTS(outputs, 8), 64)
// The product of block b of row r of a band with the activations at word xq.
fn product(band: i32, b: i32, blocks: i32, r: i32, xq: i32) -> f32 {
  let at = (band * blocks + b) * 68;
  var dot = 0;
  for (var s = 0; s < 8; s++) { dot += dot_bytes(w_u(at + 4 + s * 8 + r), xq_u(xq + s)); }
  return f32(dot) * (f32_of_half(w_h(2 * at + r)) * xq_f(xq + 8));
}
fn output(m: i32, n: i32, v: f32) {
  var r = 0.0;
  if (residual_given) { r = residual_f(m * residual_stride + n); }
  y_put(m * y_stride + n, v + r);
}
MAIN {
  multiply(gid, tid, rows, outputs, inputs);
}

ALSO(linear_q8_group, linear_q8_0, * 68 => * 72, at + 4 + s => at + 8 + s, f32_of_half(w_h(2 * at + r)) => w_f(at + r))

KERNEL(linear_blocks, PARTS(rows, 4) * PARTS(outputs, 8), 64, type)
TAKES(linear_blocks, (type == 2) + (type == 12) + (type == 14))
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
fn output(m: i32, n: i32, v: f32) {
  var r = 0.0;
  if (residual_given) { r = residual_f(m * residual_stride + n); }
  y_put(m * y_stride + n, v + r);
}
MAIN {
  multiply(gid, tid, rows, outputs, inputs);
}
