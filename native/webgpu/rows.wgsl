// Norms, softmax and cross entropy with their gradients, reductions and scans: a group of threads for each row, or for each result.

var<workgroup> parts: array<f32, 64>;
var<workgroup> eighths: array<f32, 8>;
var<workgroup> places: array<i32, 64>;
var<workgroup> lanes: array<f32, 256>;

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
// Of 256 threads, those whose numbers have the same rest by 16 add up; the first 16 have the sums.
fn sum_of_lanes(x: f32, tid: i32) -> f32 {
  workgroupBarrier();
  lanes[tid] = x;
  workgroupBarrier();
  var s = 0.0;
  if (tid < 16) {
    for (var i = 0; i < 16; i++) { s += lanes[tid + 16 * i]; }
  }
  return s;
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

// A class as a number of 32 bits, -1 for one that no row has: those that are ignored, and wrong ones.
fn class_of(e: vec2<u32>, bytes: i32, ignored: i32, classes: i32) -> i32 {
  let c = i32(e.x);
  let fits = bytes == 4 || e.y == u32(c >> 31u);
  if (fits && c == ignored) { return -1; }
  if (!fits || c < 0 || c >= classes) { fail(INDEX_RANGE); return -1; }
  return c;
}

KERNEL(rms_norm_f32, rows, 64)
MAIN {
  if (gid >= rows) { return; }
  var s = 0.0;
  for (var i = tid; i < columns; i += THREADS) { let v = x_f(gid * x_stride + i); s += v * v; }
  let factor = 1.0 / sqrt(sum_all(s, tid) / f32(columns) + epsilon);
  for (var i = tid; i < columns; i += THREADS) { y_put(gid * y_stride + i, x_f(gid * x_stride + i) * factor * weight_f(i)); }
}

STEP(rms_norm_backward_f32, rows, 64)
MAIN {
  if (gid >= rows) { return; }
  var s = 0.0;
  for (var i = tid; i < columns; i += THREADS) { let v = x_f(gid * columns + i); s += v * v; }
  s = sum_all(s, tid);
  if (tid == 0) { between_put(gid, 1.0 / sqrt(s / f32(columns) + epsilon)); }
}

STEP(rms_norm_backward_f32, PARTS(columns, 16), 256)
MAIN {
  let c = gid * 16 + tid % 16;
  var s = 0.0;
  if (c < columns) {
    for (var r = tid / 16; r < rows; r += 16) { s += x_f(r * columns + c) * between_f(r) * grad_y_f(r * columns + c); }
  }
  s = sum_of_lanes(s, tid);
  if (tid < 16 && c < columns) { grad_weight_put(c, s); }
}

// inverse * (w g - x inverse^2 mean(w g x))
KERNEL(rms_norm_backward_f32, rows, 64)
BETWEEN(rms_norm_backward_f32, 4 * rows)
MAIN {
  if (gid >= rows) { return; }
  let at = gid * columns;
  let inverse = between_f(gid);
  var s = 0.0;
  for (var i = tid; i < columns; i += THREADS) { s += x_f(at + i) * weight_f(i) * grad_y_f(at + i); }
  let mean = sum_all(s, tid) / f32(columns) * inverse * inverse;
  for (var i = tid; i < columns; i += THREADS) { grad_x_put(at + i, (weight_f(i) * grad_y_f(at + i) - x_f(at + i) * mean) * inverse); }
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

// With u = (x - mean) * inverse and h = weight * grad_y: inverse * (h - mean(h) - u * mean(h * u))
KERNEL(layer_norm_backward_f32, rows, 64)
MAIN {
  if (gid >= rows) { return; }
  let at = gid * columns;
  var s = 0.0;
  for (var i = tid; i < columns; i += THREADS) { s += x_f(at + i); }
  let mean = sum_all(s, tid) / f32(columns);
  var t = 0.0;
  for (var i = tid; i < columns; i += THREADS) { let v = x_f(at + i) - mean; t += v * v; }
  let inverse = 1.0 / sqrt(sum_all(t, tid) / f32(columns) + epsilon);
  var sum = 0.0;
  var product = 0.0;
  for (var i = tid; i < columns; i += THREADS) {
    let h = weight_f(i) * grad_y_f(at + i);
    sum += h;
    product += h * ((x_f(at + i) - mean) * inverse);
  }
  sum = sum_all(sum, tid) / f32(columns);
  product = sum_all(product, tid) / f32(columns);
  for (var i = tid; i < columns; i += THREADS) {
    grad_x_put(at + i, (weight_f(i) * grad_y_f(at + i) - sum - (x_f(at + i) - mean) * inverse * product) * inverse);
  }
  if (tid == 0) {
    statistics_put(2 * gid, mean);
    statistics_put(2 * gid + 1, inverse);
  }
}

KERNEL(layer_norm_weights_backward_f32, PARTS(columns, 16), 256)
MAIN {
  let c = gid * 16 + tid % 16;
  var of_weight = 0.0;
  var of_bias = 0.0;
  if (c < columns) {
    for (var r = tid / 16; r < rows; r += 16) {
      let g = grad_y_f(r * columns + c);
      of_weight += g * ((x_f(r * columns + c) - statistics_f(2 * r)) * statistics_f(2 * r + 1));
      of_bias += g;
    }
  }
  of_weight = sum_of_lanes(of_weight, tid);
  of_bias = sum_of_lanes(of_bias, tid);
  if (tid < 16 && c < columns) {
    grad_weight_put(c, of_weight);
    grad_bias_put(c, of_bias);
  }
}

KERNEL(normalize, rows, 64)
TAKES(normalize, (type == TYPE_float32) * (weight_type == TYPE_float32))
// Where element e of a row lies, and its weight.
fn place_of(row: i32, e: i32) -> i32 { return row * row_stride + e / length * segment_stride + e % length; }
fn weight_of(row: i32, e: i32) -> i32 {
  return row % max(weight_period, 1) * weight_row + e / length * weight_segment + e % length * weight_element;
}
fn value(row: i32, e: i32) -> f32 { return x_f(place_of(row, e)); }
MAIN {
  if (gid >= rows) { return; }
  let many_elements = segments * length;
  var mean = 0.0;
  if (centred == 1) {
    var s = 0.0;
    for (var e = tid; e < many_elements; e += THREADS) { s += value(gid, e); }
    mean = sum_all(s, tid) / f32(many_elements);
  }
  var t = 0.0;
  for (var e = tid; e < many_elements; e += THREADS) { let v = value(gid, e) - mean; t += v * v; }
  let variance = sum_all(t, tid) / f32(many_elements);
  let inverse = 1.0 / sqrt(variance + epsilon);
  for (var e = tid; e < many_elements; e += THREADS) {
    var v = (value(gid, e) - mean) * inverse;
    if (weight_given) { v *= weight_f(weight_of(gid, e)); }
    if (bias_given) { v += bias_f(weight_of(gid, e)); }
    y_put(place_of(gid, e), v);
  }
  if (tid == 0 && statistics_given) {
    statistics_put(3 * gid, mean);
    statistics_put(3 * gid + 1, variance);
    statistics_put(3 * gid + 2, inverse);
  }
}

KERNEL(normalize_backward, rows, 64)
TAKES(normalize_backward, (type == TYPE_float32) * (weight_type == TYPE_float32))
USES(normalize_backward, normalize)
fn weighted(row: i32, e: i32) -> f32 {
  var h = grad_y_f(place_of(row, e));
  if (weight_given) { h *= weight_f(weight_of(row, e)); }
  return h;
}
MAIN {
  if (gid >= rows) { return; }
  let many_elements = segments * length;
  let mean = statistics_f(3 * gid);
  let inverse = statistics_f(3 * gid + 2);
  var sum = 0.0;
  var product = 0.0;
  for (var e = tid; e < many_elements; e += THREADS) {
    let h = weighted(gid, e);
    sum += h;
    product += h * ((value(gid, e) - mean) * inverse);
  }
  sum = select(0.0, sum_all(sum, tid) / f32(many_elements), centred == 1);
  product = sum_all(product, tid) / f32(many_elements);
  for (var e = tid; e < many_elements; e += THREADS) {
    let v = (weighted(gid, e) - sum - (value(gid, e) - mean) * inverse * product) * inverse;
    grad_x_put(place_of(gid, e), v);
  }
}

// A group for each weight, which is that of whole rows, or of a segment of each of them.
KERNEL(normalize_weights_backward, weights, 64)
TAKES(normalize_weights_backward, (type == TYPE_float32) * (weight_element == 0) * ((weight_segment == 0) * (weight_row == 1) + (weight_segment == 1) * (weight_row == segments)))
MAIN {
  if (gid >= weights) { return; }
  let own_segments = select(segments, 1, weight_segment == 1);
  let first = select(gid, gid / segments, weight_segment == 1);
  let segment = select(0, gid % segments, weight_segment == 1);
  let period = max(weight_period, 1);
  let each = own_segments * length;
  var of_weight = 0.0;
  var of_bias = 0.0;
  for (var i = tid; i < (rows - first + period - 1) / period * each; i += THREADS) {
    let row = first + i / each * period;
    let at = row * row_stride + (segment + i % each / length) * segment_stride + i % length;
    let g = grad_y_f(at);
    of_weight += g * ((x_f(at) - statistics_f(3 * row)) * statistics_f(3 * row + 2));
    of_bias += g;
  }
  of_weight = sum_all(of_weight, tid);
  of_bias = sum_all(of_bias, tid);
  if (tid == 0) {
    grad_weight_put(gid, of_weight);
    if (grad_bias_given) { grad_bias_put(gid, of_bias); }
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

KERNEL(softmax_backward_f32, rows, 64)
MAIN {
  if (gid >= rows) { return; }
  let at = gid * columns;
  var s = 0.0;
  for (var i = tid; i < columns; i += THREADS) { s += y_f(at + i) * grad_y_f(at + i); }
  s = sum_all(s, tid);
  for (var i = tid; i < columns; i += THREADS) { grad_x_put(at + i, y_f(at + i) * (grad_y_f(at + i) - s)); }
}

KERNEL(softmax_backward, outer * inner, 64, type)
TAKES(softmax_backward, type == TYPE_float32)
MAIN {
  if (gid >= outer * inner) { return; }
  let at = gid / inner * count * inner + gid % inner;
  var s = 0.0;
  for (var i = tid; i < count; i += THREADS) {
    let g = grad_y_f(at + i * inner);
    if (log == 1) { s += g; } else { s += g * y_f(at + i * inner); }
  }
  s = sum_all(s, tid);
  for (var i = tid; i < count; i += THREADS) {
    let g = grad_y_f(at + i * inner);
    let p = y_f(at + i * inner);
    if (log == 1) { grad_x_put(at + i * inner, g - exp(p) * s); } else { grad_x_put(at + i * inner, p * (g - s)); }
  }
}

STEP(cross_entropy_f32, 1, 256, target_bytes)
var<workgroup> kept: atomic<u32>;
MAIN {
  var n = 0u;
  for (var i = tid; i < rows; i += THREADS) { n += select(0u, 1u, class_of(targets_el(i, target_bytes), target_bytes, ignore_index, columns) >= 0); }
  atomicAdd(&kept, n);
  workgroupBarrier();
  if (tid == 0) {
    between_put(0, f32(atomicLoad(&kept)));
    count_put(0, f32(atomicLoad(&kept)));
  }
}

KERNEL(cross_entropy_f32, rows, 64, target_bytes)
BETWEEN(cross_entropy_f32, 4)
MAIN {
  if (gid >= rows) { return; }
  let at = gid * columns;
  let target_ = class_of(targets_el(gid, target_bytes), target_bytes, ignore_index, columns);
  let right = logits_f(at + max(target_, 0));
  var m = logits_f(at);
  for (var i = tid; i < columns; i += THREADS) { let v = logits_f(at + i); if (above(v, m)) { m = v; } }
  m = largest_of_all(m, tid);
  var s = 0.0;
  for (var i = tid; i < columns; i += THREADS) { s += exp(logits_f(at + i) - m); }
  s = sum_all(s, tid);
  if (loss_given && tid == 0) { loss_put(gid, select(0.0, log_of(s) - (right - m), target_ >= 0)); }
  if (grad_logits_given) {
    var each = 1.0 / max(between_f(0), 1.0);
    if (scale_given) { each *= scale_f(0); }
    for (var i = tid; i < columns; i += THREADS) {
      let p = exp(logits_f(at + i) - m) / s - select(0.0, 1.0, i == target_);
      grad_logits_put(at + i, select(0.0, p * each, target_ >= 0));
    }
  }
}

// The loss of a row: (1 - smoothing) * w[target] * -log p[target] + smoothing / columns * the sum of w[c] * -log p[c].
KERNEL(cross_entropy, rows, 64, type, target_type)
TAKES(cross_entropy, (type == TYPE_float32) + (type == TYPE_float16) + (type == TYPE_bfloat16))
fn logit(i: i32) -> f32 { return float_of(logits_el(i, type_bytes), type); }
fn factor(c: i32) -> f32 {
  if (class_weights_given) { return class_weights_f(c); }
  return 1.0;
}
MAIN {
  if (gid >= rows) { return; }
  let at = gid * columns;
  let target_ = class_of(targets_el(gid, target_type_bytes), target_type_bytes, ignore_index, columns);
  var m = logit(at);
  for (var i = tid; i < columns; i += THREADS) { let v = logit(at + i); if (above(v, m)) { m = v; } }
  m = largest_of_all(m, tid);
  var s = 0.0;
  for (var i = tid; i < columns; i += THREADS) { s += exp(logit(at + i) - m); }
  let whole = m + log_of(sum_all(s, tid));
  var all = 0.0;
  if (smoothing != 0.0) {
    for (var i = tid; i < columns; i += THREADS) { all += factor(i) * (whole - logit(at + i)); }
  }
  all = sum_all(all, tid);
  if (tid == 0) {
    let of_target = factor(max(target_, 0));
    var found = (1.0 - smoothing) * of_target * (whole - logit(at + max(target_, 0)));
    if (smoothing != 0.0) { found += smoothing / f32(columns) * all; }
    loss_put(gid, select(0.0, found, target_ >= 0));
    if (weights_given) { weights_put(gid, select(0.0, of_target, target_ >= 0)); }
  }
}

KERNEL(cross_entropy_backward, rows, 64, type, target_type)
TAKES(cross_entropy_backward, type == TYPE_float32)
USES(cross_entropy_backward, cross_entropy)
MAIN {
  if (gid >= rows) { return; }
  let at = gid * columns;
  let target_ = class_of(targets_el(gid, target_type_bytes), target_type_bytes, ignore_index, columns);
  var m = logits_f(at);
  for (var i = tid; i < columns; i += THREADS) { let v = logits_f(at + i); if (above(v, m)) { m = v; } }
  m = largest_of_all(m, tid);
  var s = 0.0;
  var all = 0.0;
  for (var i = tid; i < columns; i += THREADS) { s += exp(logits_f(at + i) - m); all += factor(i); }
  s = sum_all(s, tid);
  all = sum_all(all, tid);
  let sure = (1.0 - smoothing) * factor(max(target_, 0));
  let smooth_ = smoothing / f32(columns);
  let each = select(0.0, grad_loss_f(gid), target_ >= 0);
  for (var i = tid; i < columns; i += THREADS) {
    let p = exp(logits_f(at + i) - m) / s;
    let g = sure * (p - select(0.0, 1.0, i == target_)) + smooth_ * (p * all - factor(i));
    grad_logits_put(at + i, select(0.0, g * each, target_ >= 0));
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
TAKES(reduce, (y_type == TYPE_bool) * ((opcode == OP_any) + (opcode == OP_all)) * (x_type != TYPE_float64) * ((x_type > 10) + (x_type < 9)) + (x_type > 10) * (x_type < TYPE_float64) * (y_type != TYPE_float64) * ((y_type == TYPE_float32) + (y_type == TYPE_float16) + (y_type == TYPE_bfloat16) + (y_type == TYPE_int64)) + (x_type < 9) * (x_type != TYPE_uint32) * (x_type != TYPE_uint64) * (y_type == TYPE_int64) * (opcode != OP_argmax) * (opcode != OP_argmin))
ATOMIC(reduce, (y_type == TYPE_bool) + (y_type == TYPE_float16) + (y_type == TYPE_bfloat16))
var<workgroup> wholes: array<vec2<u32>, 64>;
const of_truths = opcode == OP_any || opcode == OP_all;
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
    case OP_any: { return a | b; }
    case OP_all: { return a & b; }
    case OP_prod: { return product_of(a, b); }
    case OP_max: { return select(a, b, is_less(a, b)); }
    case OP_min: { return select(a, b, is_less(b, a)); }
    default: { return sum_of(a, b); }
  }
}
fn whole_value(i: i32, at: i32) -> vec2<u32> {
  let e = x_el(at + i * x_reduced, x_type_bytes);
  if (!of_truths) { return whole_of(e, x_type); }
  if (!is_float(x_type)) { return vec2<u32>(select(0u, 1u, (e.x | e.y) != 0u), 0u); }
  let v = float_of(e, x_type);
  return vec2<u32>(select(0u, 1u, v != 0.0 || is_nan(v)), 0u);
}
fn float_value(i: i32, at: i32) -> f32 { return float_of(x_el(at + i * x_reduced, x_type_bytes), x_type); }
MAIN {
  if (gid >= outer * inner) { return; }
  let at = gid / inner * x_outer + gid % inner * x_inner;
  if (!is_float(x_type) || of_truths) {
    var w = vec2<u32>(0u, 0u);
    if (opcode == OP_max || opcode == OP_min) { w = whole_value(0, at); }
    if (opcode == OP_prod || opcode == OP_all) { w = vec2<u32>(1u, 0u); }
    for (var i = tid; i < reduced; i += THREADS) { w = whole_combined(w, whole_value(i, at)); }
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
  if (tid == 0) { y_put_el(gid, y_type_bytes, element_of(r, y_type)); }
}

// A group goes along a line, 64 elements at a time.
KERNEL(scan, outer * inner, 64, opcode, type)
TAKES(scan, ((opcode == OP_cumsum) + (opcode == OP_cumprod)) * ((type == TYPE_float32) + (type < 9) * (type != TYPE_uint64)) + (opcode == OP_logcumsumexp) * (type == TYPE_float32))
var<workgroup> sums: array<vec2<u32>, 64>;
const result_bytes = select(8, 4, type == TYPE_float32);
const product = opcode == OP_cumprod;
fn joined(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if (type == TYPE_float32) {
    let x_ = bitcast<f32>(a.x);
    let y_ = bitcast<f32>(b.x);
    if (opcode == OP_logcumsumexp) {
      let most = max(x_, y_);
      if (is_nan(x_) || is_nan(y_)) { return vec2<u32>(bitcast<u32>(nan()), 0u); }
      if (is_inf(most)) { return vec2<u32>(bitcast<u32>(most), 0u); }
      return vec2<u32>(bitcast<u32>(most + log(exp(x_ - most) + exp(y_ - most))), 0u);
    }
    return vec2<u32>(bitcast<u32>(select(x_ + y_, x_ * y_, product)), 0u);
  }
  if (product) { return product_of(a, b); }
  return sum_of(a, b);
}
fn nothing() -> vec2<u32> {
  if (opcode == OP_logcumsumexp) { return vec2<u32>(bitcast<u32>(-infinity()), 0u); }
  if (!product) { return vec2<u32>(0u, 0u); }
  return vec2<u32>(select(1u, bitcast<u32>(1.0), type == TYPE_float32), 0u);
}
MAIN {
  if (gid >= outer * inner) { return; }
  let at = gid / inner * x_outer + gid % inner * x_inner;
  let to = gid / inner * length * inner + gid % inner;
  var before = nothing(); // what all earlier elements give
  for (var first = 0; first < length; first += THREADS) {
    let i = first + tid;
    var v = nothing();
    if (i < length) {
      v = x_el(at + i * x_dim, type_bytes);
      if (type != TYPE_float32) { v = whole_of(v, type); }
    }
    workgroupBarrier();
    sums[tid] = v;
    workgroupBarrier();
    for (var s = 1; s < THREADS; s *= 2) {
      var w = nothing();
      if (tid >= s) { w = sums[tid - s]; }
      workgroupBarrier();
      v = joined(w, v);
      sums[tid] = v;
      workgroupBarrier();
    }
    if (i < length) { y_put_el(to + i * inner, result_bytes, joined(before, v)); }
    before = joined(before, sums[THREADS - 1]);
  }
}

KERNEL(linear_scan_f32, MIN(PARTS(outer * inner, 64), 16384), 64)
MAIN {
  FOR_EACH(line, outer * inner) {
    let at = line / inner * length * inner + line % inner;
    var state = 0.0;
    if (start_given) { state = start_f(line); }
    for (var k = 0; k < length; k++) {
      let i = at + select(k, length - 1 - k, reversed == 1) * inner;
      state = a_f(i) * state + b_f(i);
      y_put(i, state);
    }
  }
}
