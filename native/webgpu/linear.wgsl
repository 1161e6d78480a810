// Products of rows with weights of floats, and convolutions, which are products with windows.
//
// Of `few` rows, 16 threads sum each output; of more, a group computes a tile of 32 by 32, of which a thread has 4 by 4.

const DEPTH = 16;
var<workgroup> left: array<f32, 544>; // 32 rows of 16, and one between them: threads side by side read different banks
var<workgroup> right: array<f32, 544>;

fn multiply(gid: i32, tid: i32, m_count: i32, n_count: i32, k_count: i32) {
  if (few == 1) {
    let blocks = (n_count + 3) / 4;
    let m = gid / blocks;
    let n = gid % blocks * 4 + tid / 16;
    let lane = tid % 16;
    var s = 0.0;
    if (m < m_count && n < n_count) {
      for (var k = lane; k < k_count; k += 16) { s += input(m, k) * weight(n, k); }
    }
    left[tid] = s;
    workgroupBarrier();
    if (lane == 0 && m < m_count && n < n_count) { // a wait of the whole group costs more than these sums
      for (var i = 1; i < 16; i++) { s += left[tid + i]; }
      output(m, n, s);
    }
    return;
  }
  let across = (n_count + 31) / 32;
  begin_columns(gid % across * 32, tid);
  let m0 = gid / across * 32;
  let n0 = gid % across * 32;
  let row = tid / 8;
  let column = tid % 8;
  var sums = array<vec4<f32>, 4>();
  for (var k0 = 0; k0 < k_count; k0 += DEPTH) {
    begin_depth(k0, tid);
    workgroupBarrier();
    for (var i = tid; i < 32 * DEPTH; i += 64) {
      let r = i / DEPTH;
      let k = i % DEPTH;
      var u = 0.0;
      var v = 0.0;
      if (k0 + k < k_count) {
        if (m0 + r < m_count) { u = input(m0 + r, k0 + k); }
        if (n0 + r < n_count) { v = weight(n0 + r, k0 + k); }
      }
      left[r * (DEPTH + 1) + k] = u;
      right[r * (DEPTH + 1) + k] = v;
    }
    workgroupBarrier();
    for (var k = 0; k < DEPTH; k++) {
      let w = vec4<f32>(right[column * (DEPTH + 1) + k], right[(column + 8) * (DEPTH + 1) + k], right[(column + 16) * (DEPTH + 1) + k], right[(column + 24) * (DEPTH + 1) + k]);
      sums[0] += left[row * (DEPTH + 1) + k] * w;
      sums[1] += left[(row + 8) * (DEPTH + 1) + k] * w;
      sums[2] += left[(row + 16) * (DEPTH + 1) + k] * w;
      sums[3] += left[(row + 24) * (DEPTH + 1) + k] * w;
    }
  }
  for (var i = 0; i < 4; i++) {
    for (var j = 0; j < 4; j++) {
      let m = m0 + row + 8 * i;
      let n = n0 + column + 8 * j;
      if (m < m_count && n < n_count) { output(m, n, sums[i][j]); }
    }
  }
}

KERNEL(linear_f32, CHOOSE(rows < 8, rows * PARTS(outputs, 4), PARTS(rows, 32) * PARTS(outputs, 32)), 64, few=rows < 8)
fn begin_columns(n: i32, tid: i32) {}
fn begin_depth(k: i32, tid: i32) {}
fn input(m: i32, k: i32) -> f32 { return x_f(m * x_stride + k); }
fn weight(n: i32, k: i32) -> f32 { return w_f(n * inputs + k); }
fn output(m: i32, n: i32, v: f32) {
  var r = 0.0;
  if (residual_given) { r = residual_f(m * residual_stride + n); }
  y_put(m * y_stride + n, v + r);
}
MAIN {
  multiply(gid, tid, rows, outputs, inputs);
}

ALSO(linear_f16, linear_f32, w_f(n * inputs + k) => f32_of_half(w_h(n * inputs + k)))
ALSO(linear_bf16, linear_f32, w_f(n * inputs + k) => f32_of_bfloat(w_h(n * inputs + k)))

KERNEL(matmul_f32, batch * CHOOSE(m < 8, m * PARTS(n, 4), PARTS(m, 32) * PARTS(n, 32)), 64, few=m < 8)
var<private> which: i32;
fn begin_columns(n_: i32, tid: i32) {}
fn begin_depth(k_: i32, tid: i32) {}
fn input(row_: i32, k_: i32) -> f32 { return a_f(which * a_batch + row_ * a_row + k_ * a_column); }
fn weight(column_: i32, k_: i32) -> f32 { return b_f(which * b_batch + k_ * b_row + column_ * b_column); }
fn output(row_: i32, column_: i32, v: f32) { c_put(which * c_batch + row_ * c_row + column_, v); }
MAIN {
  let each = select((m + 31) / 32 * ((n + 31) / 32), m * ((n + 3) / 4), few == 1);
  let turn = gid / each;
  if (turn >= batch) { return; }
  which = turn;
  multiply(gid % each, tid, m, n, k);
}

ALSO(matmul_f16, matmul_f32, a_f(which * a_batch + row_ * a_row + k_ * a_column) => f32_of_half(a_h(which * a_batch + row_ * a_row + k_ * a_column)), b_f(which * b_batch + k_ * b_row + column_ * b_column) => f32_of_half(b_h(which * b_batch + k_ * b_row + column_ * b_column)), c_put(which * c_batch + row_ * c_row + column_, v) => c_put_el(which * c_batch + row_ * c_row + column_, 2, vec2<u32>(half_of_f32(v), 0u)))
ATOMIC(matmul_f16, 1)
ALSO(matmul_bf16, matmul_f16, f32_of_half => f32_of_bfloat, half_of_f32 => bfloat_of_f32)
ATOMIC(matmul_bf16, 1)

KERNEL(windows_f32, batch * groups * CHOOSE(m < 8, m * PARTS(j0 * j1 * j2 * j3, 4), PARTS(m, 32) * PARTS(j0 * j1 * j2 * j3, 32)), 64, few=m < 8)
var<private> which: i32;
// Where the tile's columns and the rows of its depth are in x: to divide costs more than to multiply.
var<workgroup> of_column: array<i32, 32>;
var<workgroup> of_row: array<i32, DEPTH>;
fn column_at(n: i32) -> i32 {
  return n % j3 * j_stride3 + n / j3 % j2 * j_stride2 + n / (j3 * j2) % j1 * j_stride1 + n / (j3 * j2 * j1) * j_stride0;
}
fn row_at(n: i32) -> i32 {
  return n % k3 * k_stride3 + n / k3 % k2 * k_stride2 + n / (k3 * k2) % k1 * k_stride1 + n / (k3 * k2 * k1) * k_stride0;
}
fn begin_columns(n: i32, tid: i32) {
  if (tid < 32) { of_column[tid] = column_at(n + tid); }
}
fn begin_depth(k: i32, tid: i32) {
  if (tid < DEPTH) { of_row[tid] = row_at(k + tid); }
}
fn input(row: i32, k: i32) -> f32 { return a_f((which % groups * m + row) * (k0 * k1 * k2 * k3) + k); }
fn weight(n: i32, k: i32) -> f32 {
  var at = which / groups * x_batch + which % groups * x_group;
  if (few == 1) { at += column_at(n) + row_at(k); } else { at += of_column[n % 32] + of_row[k % DEPTH]; }
  return x_f(at);
}
fn output(row: i32, n: i32, v: f32) {
  var r = v;
  if (bias_given) { r += bias_f(which % groups * m + row); }
  c_put((which * m + row) * (j0 * j1 * j2 * j3) + n, r);
}
MAIN {
  let count = j0 * j1 * j2 * j3;
  let each = select((m + 31) / 32 * ((count + 31) / 32), m * ((count + 3) / 4), few == 1);
  let turn = gid / each;
  if (turn >= batch * groups) { return; }
  which = turn;
  multiply(gid % each, tid, m, count, k0 * k1 * k2 * k3);
}
