// Norms, softmax, reductions and scans: a group of threads for each row, or for each result.

var<workgroup> parts: array<f32, 64>;
var<workgroup> eighths: array<f32, 8>;
var<workgroup> places: array<i32, 64>;

// Eight threads sum eight numbers each, then every thread the eight sums: waiting for the group costs more than adding.
fn sum_all(x: f32, tid: i32) -> f32 {
  workgroupBarrier();
  parts[tid] = x;
  workgroupBarrier();
  if (tid < 8) {
    var s = 0.0;
    for (var i = 0; i < 8; i++) { s += parts[8 * tid + i]; }
    eighths[tid] = s;
  }
  workgroupBarrier();
  var s = 0.0;
  for (var i = 0; i < 8; i++) { s += eighths[i]; }
  return s;
}
fn largest_of_all(x: f32, tid: i32) -> f32 {
  workgroupBarrier();
  parts[tid] = x;
  workgroupBarrier();
  if (tid < 8) {
    var m = parts[8 * tid];
    for (var i = 1; i < 8; i++) { if (above(parts[8 * tid + i], m)) { m = parts[8 * tid + i]; } }
    eighths[tid] = m;
  }
  workgroupBarrier();
  var m = eighths[0];
  for (var i = 1; i < 8; i++) { if (above(eighths[i], m)) { m = eighths[i]; } }
  return m;
}
// Whether to take v, at place i, before what was found, for the largest or the smallest: the first of equal ones, NaN before all.
fn goes_before(v: f32, i: i32, found: f32, at: i32, smallest: bool) -> bool {
  if (v == found || (is_nan(v) && is_nan(found))) { return i < at; }
  if (smallest) { return !is_nan(found) && (is_nan(v) || v < found); }
  return above(v, found);
}
// The place of the element that goes before all others, of those that the threads have found.
fn place_of_all(found: f32, at: i32, smallest: bool, tid: i32) -> i32 {
  parts[tid] = found;
  places[tid] = at;
  workgroupBarrier();
  for (var s = 32; s > 0; s /= 2) {
    if (tid < s && goes_before(parts[tid + s], places[tid + s], parts[tid], places[tid], smallest)) {
      parts[tid] = parts[tid + s];
      places[tid] = places[tid + s];
    }
    workgroupBarrier();
  }
  return places[0];
}

KERNEL(rms_norm_f32, rows, 64)
MAIN {
  if (gid >= rows) { return; }
  var s = 0.0;
  for (var i = tid; i < columns; i += THREADS) { let v = x_f(gid * x_stride + i); s += v * v; }
  let factor = 1.0 / sqrt(sum_all(s, tid) / f32(columns) + epsilon);
  for (var i = tid; i < columns; i += THREADS) { y_put(gid * y_stride + i, x_f(gid * x_stride + i) * factor * weight_f(i)); }
}

KERNEL(layer_norm_f32, rows, 64)
MAIN {
  if (gid >= rows) { return; }
  var s = 0.0;
  for (var i = tid; i < columns; i += THREADS) { s += x_f(gid * x_stride + i); }
  let mean = sum_all(s, tid) / f32(columns);
  var t = 0.0;
  for (var i = tid; i < columns; i += THREADS) { let v = x_f(gid * x_stride + i) - mean; t += v * v; }
  let factor = 1.0 / sqrt(sum_all(t, tid) / f32(columns) + epsilon);
  for (var i = tid; i < columns; i += THREADS) {
    y_put(gid * y_stride + i, (x_f(gid * x_stride + i) - mean) * factor * weight_f(i) + bias_f(i));
  }
}

KERNEL(softmax_f32, rows, 64)
MAIN {
  if (gid >= rows) { return; }
  var m = x_f(gid * x_stride);
  for (var i = tid; i < columns; i += THREADS) { let v = x_f(gid * x_stride + i); if (above(v, m)) { m = v; } }
  m = largest_of_all(m, tid);
  var s = 0.0;
  for (var i = tid; i < columns; i += THREADS) { s += exp(x_f(gid * x_stride + i) - m); }
  s = sum_all(s, tid);
  for (var i = tid; i < columns; i += THREADS) { y_put(gid * y_stride + i, exp(x_f(gid * x_stride + i) - m) / s); }
}

KERNEL(log_softmax_f32, rows, 64)
MAIN {
  if (gid >= rows) { return; }
  var m = x_f(gid * x_stride);
  for (var i = tid; i < columns; i += THREADS) { let v = x_f(gid * x_stride + i); if (above(v, m)) { m = v; } }
  m = largest_of_all(m, tid);
  var s = 0.0;
  for (var i = tid; i < columns; i += THREADS) { s += exp(x_f(gid * x_stride + i) - m); }
  s = log_of(sum_all(s, tid));
  for (var i = tid; i < columns; i += THREADS) { y_put(gid * y_stride + i, x_f(gid * x_stride + i) - m - s); }
}

KERNEL(softmax, outer * inner, 64, type)
TAKES(softmax, type == TYPE_float32)
MAIN {
  if (gid >= outer * inner) { return; }
  let at = gid / inner * count * inner + gid % inner;
  var m = x_f(at);
  for (var i = tid; i < count; i += THREADS) { let v = x_f(at + i * inner); if (above(v, m)) { m = v; } }
  m = largest_of_all(m, tid);
  var s = 0.0;
  for (var i = tid; i < count; i += THREADS) { s += exp(x_f(at + i * inner) - m); }
  s = sum_all(s, tid);
  for (var i = tid; i < count; i += THREADS) {
    let v = x_f(at + i * inner) - m;
    if (log == 1) { y_put(at + i * inner, v - log_of(s)); } else { y_put(at + i * inner, exp(v) / s); }
  }
}

KERNEL(sum_rows_f32, rows, 64)
MAIN {
  if (gid >= rows) { return; }
  var s = 0.0;
  for (var i = tid; i < columns; i += THREADS) { s += x_f(gid * x_stride + i); }
  s = sum_all(s, tid);
  if (tid == 0) { y_put(gid, s); }
}

KERNEL(sum_columns_f32, MIN(PARTS(columns, 64), 16384), 64)
MAIN {
  FOR_EACH(c, columns) {
    var s = 0.0;
    for (var r = 0; r < rows; r++) { s += x_f(r * x_stride + c); }
    y_put(c, s);
  }
}

KERNEL(argmax_f32, rows, 64)
MAIN {
  if (gid >= rows) { return; }
  var best = x_f(gid * x_stride);
  var at = 0;
  for (var i = tid; i < columns; i += THREADS) {
    let v = x_f(gid * x_stride + i);
    if (goes_before(v, i, best, at, false)) { best = v; at = i; }
  }
  let place = place_of_all(best, at, false, tid);
  if (tid == 0) { index_put_u(gid, u32(place)); }
}

KERNEL(reduce, outer * inner, 64, opcode, y_type, x_type)
TAKES(reduce, (x_type > 10) * (x_type < TYPE_float64) * (y_type != TYPE_float64) * ((y_type == TYPE_float32) + (y_type == TYPE_int64)) + (x_type < 9) * (x_type != TYPE_uint32) * (x_type != TYPE_uint64) * (y_type == TYPE_int64) * (opcode != OP_argmax) * (opcode != OP_argmin))
var<workgroup> wholes: array<vec2<u32>, 64>;
const is_arg = opcode == OP_argmax || opcode == OP_argmin;
fn combined(a: f32, b: f32) -> f32 {
  switch opcode {
    case OP_prod: { return a * b; }
    case OP_max: { if (above(b, a)) { return b; } return a; }
    case OP_min: { if (is_nan(b) || (!is_nan(a) && b < a)) { return b; } return a; }
    default: { return a + b; }
  }
}
fn whole_combined(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  switch opcode {
    case OP_prod: { return product_of(a, b); }
    case OP_max: { return select(a, b, is_less(a, b)); }
    case OP_min: { return select(a, b, is_less(b, a)); }
    default: { return sum_of(a, b); }
  }
}
fn float_value(i: i32, at: i32) -> f32 { return float_of(x_el(at + i * x_reduced, x_type_bytes), x_type); }
MAIN {
  if (gid >= outer * inner) { return; }
  let at = gid / inner * x_outer + gid % inner * x_inner;
  if (!is_float(x_type)) {
    var w = whole_of(x_el(at, x_type_bytes), x_type);
    if (opcode == OP_sum) { w = vec2<u32>(0u, 0u); }
    if (opcode == OP_prod) { w = vec2<u32>(1u, 0u); }
    for (var i = tid; i < reduced; i += THREADS) { w = whole_combined(w, whole_of(x_el(at + i * x_reduced, x_type_bytes), x_type)); }
    wholes[tid] = w;
    workgroupBarrier();
    for (var s = 32; s > 0; s /= 2) {
      if (tid < s) { wholes[tid] = whole_combined(wholes[tid], wholes[tid + s]); }
      workgroupBarrier();
    }
    if (tid == 0) { y_put_el(gid, y_type_bytes, wholes[0]); }
    return;
  }
  if (is_arg) {
    var best = float_value(0, at);
    var found = 0;
    for (var i = tid; i < reduced; i += THREADS) {
      let v = float_value(i, at);
      if (goes_before(v, i, best, found, opcode == OP_argmin)) { best = v; found = i; }
    }
    let place = place_of_all(best, found, opcode == OP_argmin, tid);
    if (tid == 0) { y_put_el(gid, y_type_bytes, vec2<u32>(u32(place), 0u)); }
    return;
  }
  var mean = 0.0;
  if (opcode == OP_var) {
    var s = 0.0;
    for (var i = tid; i < reduced; i += THREADS) { s += float_value(i, at); }
    mean = sum_all(s, tid) / f32(reduced);
  }
  var r = 0.0;
  if (opcode == OP_prod) { r = 1.0; }
  if (opcode == OP_max || opcode == OP_min) { r = float_value(0, at); }
  for (var i = tid; i < reduced; i += THREADS) {
    let v = float_value(i, at);
    if (opcode == OP_sum_squares) { r += v * v; } else if (opcode == OP_var) { r += (v - mean) * (v - mean); } else { r = combined(r, v); }
  }
  workgroupBarrier();
  parts[tid] = r;
  workgroupBarrier();
  for (var s = 32; s > 0; s /= 2) {
    if (tid < s) { parts[tid] = combined(parts[tid], parts[tid + s]); }
    workgroupBarrier();
  }
  r = parts[0];
  if (opcode == OP_var) { r /= f32(reduced) - correction; }
  if (tid == 0) { y_put(gid, r); }
}

// A group goes along a line, 64 elements at a time.
KERNEL(scan, outer * inner, 64, opcode, type)
TAKES(scan, (opcode == OP_cumsum) * ((type == TYPE_float32) + (type < 9) * (type != TYPE_uint64)))
var<workgroup> sums: array<vec2<u32>, 64>;
const result_bytes = select(8, 4, type == TYPE_float32);
fn added(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if (type == TYPE_float32) { return vec2<u32>(bitcast<u32>(bitcast<f32>(a.x) + bitcast<f32>(b.x)), 0u); }
  return sum_of(a, b);
}
MAIN {
  if (gid >= outer * inner) { return; }
  let at = gid / inner * x_outer + gid % inner * x_inner;
  let to = gid / inner * length * inner + gid % inner;
  var before = vec2<u32>(0u, 0u); // the sum of all earlier elements
  for (var first = 0; first < length; first += THREADS) {
    let i = first + tid;
    var v = vec2<u32>(0u, 0u);
    if (i < length) {
      v = x_el(at + i * x_dim, type_bytes);
      if (type != TYPE_float32) { v = whole_of(v, type); }
    }
    workgroupBarrier();
    sums[tid] = v;
    workgroupBarrier();
    for (var s = 1; s < THREADS; s *= 2) {
      var w = vec2<u32>(0u, 0u);
      if (tid >= s) { w = sums[tid - s]; }
      workgroupBarrier();
      v = added(v, w);
      sums[tid] = v;
      workgroupBarrier();
    }
    if (i < length) { y_put_el(to + i * inner, result_bytes, added(before, v)); }
    before = added(before, sums[THREADS - 1]);
  }
}
