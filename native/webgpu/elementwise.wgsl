// Operations on two elements, the most frequent ones on one, and gradients of activations.

// An index of an operand of the short kernels.
fn operand(i: i32, period: i32, repeat: i32) -> i32 { return i / max(repeat, 1) % max(period, 1); }
fn larger(a: f32, b: f32) -> f32 { if (is_nan(a) || a > b) { return a; } return b; }
fn smaller(a: f32, b: f32) -> f32 { if (is_nan(a) || a < b) { return a; } return b; }

KERNEL(add_f32, MIN(PARTS(count, 256), 16384), 256)
fn combined(p: f32, q: f32) -> f32 { return p + q; }
MAIN {
  FOR_EACH(i, count) {
    let p = select(number, a_f(operand(i, a_period, a_repeat)), a_given);
    let q = select(number, b_f(operand(i, b_period, b_repeat)), b_given);
    y_put(i, combined(p, q));
  }
}

ALSO(sub_f32, add_f32, p + q => p - q)
ALSO(mul_f32, add_f32, p + q => p * q)
ALSO(div_f32, add_f32, p + q => p / q)
ALSO(maximum_f32, add_f32, p + q => select(larger(p, q), q, is_nan(q)))
ALSO(minimum_f32, add_f32, p + q => select(smaller(p, q), q, is_nan(q)))

KERNEL(binary, MIN(PARTS(PRODUCT(rank, shape0), 256), 16384), 256, opcode, type)
TAKES(binary, (type > 10) * (type < TYPE_float64) * (opcode != OP_logaddexp) * (opcode != OP_ldexp) * (opcode != OP_nextafter) + (type < 9) * (type != TYPE_uint32) * (type != TYPE_uint64) * (type != TYPE_uint16) * (opcode != OP_pow) * (opcode != OP_bitwise_left_shift) * (opcode != OP_bitwise_right_shift))
const gives_bool = opcode >= OP_eq && opcode <= OP_logical_xor;
const result_bytes = select(type_bytes, 1, gives_bool);
fn power(a: f32, b: f32) -> f32 {
  if (b == 0.0 || a == 1.0) { return 1.0; }
  if (is_nan(a) || is_nan(b)) { return nan(); }
  if (b == 1.0) { return a; }
  if (b == 2.0) { return a * a; }
  let whole = floor(b) == b;
  if (a == 0.0) {
    if (b < 0.0) { return infinity(); }
    return 0.0;
  }
  if (a < 0.0 && !whole && !is_inf(b)) { return nan(); }
  if (whole && abs(b) <= 16.0) {
    var y = 1.0;
    for (var k = 0; k < i32(abs(b)); k++) { y *= a; }
    return select(y, 1.0 / y, b < 0.0);
  }
  let y = exp2(b * log2(abs(a)));
  let odd = whole && abs(b) < 16777216.0 && floor(b * 0.5) * 2.0 != b;
  return select(y, -y, a < 0.0 && odd);
}
fn of_floats(p: f32, q: f32) -> f32 {
  switch opcode {
    case OP_add: { return p + q; }
    case OP_sub: { return p - q; }
    case OP_mul: { return p * q; }
    case OP_div: { return p / q; }
    case OP_floor_divide: { return floor(p / q); }
    case OP_remainder: { let r = p - q * trunc(p / q); return select(r, r + q, r != 0.0 && (r < 0.0) != (q < 0.0)); }
    case OP_fmod: { return p - q * trunc(p / q); }
    case OP_pow: { return power(p, q); }
    case OP_maximum: { return select(larger(p, q), q, is_nan(q)); }
    case OP_minimum: { return select(smaller(p, q), q, is_nan(q)); }
    case OP_fmax: { return select(select(larger(p, q), p, is_nan(q)), q, is_nan(p)); }
    case OP_fmin: { return select(select(smaller(p, q), p, is_nan(q)), q, is_nan(p)); }
    case OP_atan2: { return atan2(p, q); }
    case OP_hypot: { let m = max(abs(p), abs(q)); if (m == 0.0) { return 0.0; } let s = p / m; let t = q / m; return m * sqrt(s * s + t * t); }
    case OP_copysign: { return bitcast<f32>((bitcast<u32>(p) & 0x7fffffffu) | (bitcast<u32>(q) & 0x80000000u)); }
    case OP_xlogy: { if (p == 0.0 && !is_nan(q)) { return 0.0; } return p * log_of(q); }
    default: { return 0.0; }
  }
}
fn of_two_floats(p: f32, q: f32) -> bool {
  let ordered = !is_nan(p) && !is_nan(q);
  switch opcode {
    case OP_eq: { return ordered && p == q; }
    case OP_ne: { return !ordered || p != q; }
    case OP_lt: { return ordered && p < q; }
    case OP_le: { return ordered && p <= q; }
    case OP_gt: { return ordered && p > q; }
    case OP_ge: { return ordered && p >= q; }
    default: { return of_two_truths(p != 0.0 || is_nan(p), q != 0.0 || is_nan(q)); }
  }
}
fn of_two_truths(p: bool, q: bool) -> bool {
  switch opcode {
    case OP_logical_and: { return p && q; }
    case OP_logical_or: { return p || q; }
    default: { return p != q; }
  }
}
fn quotient_of(p: vec2<u32>, q: vec2<u32>) -> vec2<u32> {
  if ((q.x | q.y) == 0u) { fail(DIVISION_BY_ZERO); return q; }
  let p_negative = (p.y >> 31u) == 1u;
  let q_negative = (q.y >> 31u) == 1u;
  let found = divided(select(p, negated(p), p_negative), select(q, negated(q), q_negative));
  let is_whole = (found[1].x | found[1].y) == 0u;
  let rest = select(found[1], negated(found[1]), p_negative);
  if (opcode == OP_fmod) { return rest; }
  let falls = p_negative != q_negative && !is_whole;
  if (opcode == OP_remainder) { return select(rest, sum_of(rest, q), falls); }
  let quotient = select(found[0], sum_of(found[0], vec2<u32>(1u, 0u)), falls);
  return select(quotient, negated(quotient), p_negative != q_negative);
}
fn of_wholes(p: vec2<u32>, q: vec2<u32>) -> vec2<u32> {
  switch opcode {
    case OP_add: { if (type == TYPE_bool) { return p | q; } return sum_of(p, q); }
    case OP_sub: { return sum_of(p, negated(q)); }
    case OP_mul: { return product_of(p, q); }
    case OP_floor_divide, OP_remainder, OP_fmod: { return quotient_of(p, q); }
    case OP_maximum, OP_fmax: { return select(p, q, is_less(p, q)); }
    case OP_minimum, OP_fmin: { return select(p, q, is_less(q, p)); }
    case OP_bitwise_and: { return p & q; }
    case OP_bitwise_or: { return p | q; }
    default: { return p ^ q; }
  }
}
fn of_two_wholes(p: vec2<u32>, q: vec2<u32>) -> bool {
  switch opcode {
    case OP_eq: { return is_equal(p, q); }
    case OP_ne: { return !is_equal(p, q); }
    case OP_lt: { return is_less(p, q); }
    case OP_le: { return !is_less(q, p); }
    case OP_gt: { return is_less(q, p); }
    case OP_ge: { return !is_less(p, q); }
    default: { return of_two_truths((p.x | p.y) != 0u, (q.x | q.y) != 0u); }
  }
}
fn element(i: i32) -> vec2<u32> {
  var p = vec2<u32>(number_low, number_high);
  var q = p;
  if (a_given) { p = a_el(place(i, rank, SIX(shape), SIX(a)), type_bytes); }
  if (b_given) { q = b_el(place(i, rank, SIX(shape), SIX(b)), type_bytes); }
  if (is_float(type)) {
    let u = select(f32_of_f64(number_low, number_high), float_of(p, type), a_given);
    let v = select(f32_of_f64(number_low, number_high), float_of(q, type), b_given);
    if (gives_bool) { return vec2<u32>(select(0u, 1u, of_two_floats(u, v)), 0u); }
    return element_of(of_floats(u, v), type);
  }
  if (a_given) { p = whole_of(p, type); }
  if (b_given) { q = whole_of(q, type); }
  if (gives_bool) { return vec2<u32>(select(0u, 1u, of_two_wholes(p, q)), 0u); }
  return of_wholes(p, q);
}
MAIN {
  DENSE(y, result_bytes, size_of(rank, SIX(shape)));
}

KERNEL(exp_f32, MIN(PARTS(count, 256), 16384), 256)
MAIN {
  FOR_EACH(i, count) {
    y_put(i, exp(x_f(i)));
  }
}

ALSO(log_f32, exp_f32, exp(x_f(i)) => log_of(x_f(i)))
ALSO(sqrt_f32, exp_f32, exp(x_f(i)) => sqrt(x_f(i)))
ALSO(abs_f32, exp_f32, exp(x_f(i)) => abs(x_f(i)))
ALSO(sigmoid_f32, exp_f32, exp(x_f(i)) => sigmoid(x_f(i)))
ALSO(tanh_f32, exp_f32, exp(x_f(i)) => tanh_of(x_f(i)))
ALSO(silu_f32, exp_f32, exp(x_f(i)) => silu_of(x_f(i)))
ALSO(gelu_f32, exp_f32, exp(x_f(i)) => gelu_of(x_f(i)))

KERNEL(silu_mul_f32, MIN(PARTS(rows * columns, 256), 16384), 256)
MAIN {
  FOR_EACH(i, rows * columns) {
    let r = i / columns;
    let c = i % columns;
    y_put(r * y_stride + c, silu_of(x_f(r * x_stride + c)) * x_f(r * x_stride + columns + c));
  }
}

KERNEL(activation_backward, MIN(PARTS(count, 256), 16384), 256, opcode, type)
TAKES(activation_backward, (type == TYPE_float32) + (type == TYPE_float16) + (type == TYPE_bfloat16))
fn slope_of(x: f32) -> f32 {
  switch opcode {
    case OP_gelu: { return 0.5 * erfc_of(-x * 0.70710678) + x * 0.39894228 * exp(-0.5 * x * x); }
    case OP_gelu_tanh: {
      let t = tanh_of(0.79788456 * (x + 0.044715 * x * x * x));
      return 0.5 * (1.0 + t) + 0.39894228 * x * (1.0 - t * t) * (1.0 + 0.134145 * x * x);
    }
    default: { let s = sigmoid(x); return s * (1.0 + x * (1.0 - s)); }
  }
}
fn element(i: i32) -> vec2<u32> {
  return element_of(float_of(grad_y_el(i, type_bytes), type) * slope_of(float_of(x_el(i, type_bytes), type)), type);
}
MAIN {
  DENSE(grad_x, type_bytes, count);
}

KERNEL(silu_mul_backward_f32, MIN(PARTS(rows * columns, 256), 16384), 256)
MAIN {
  FOR_EACH(i, rows * columns) {
    let at = i / columns * 2 * columns + i % columns;
    let gate = x_f(at);
    let up = x_f(at + columns);
    let g = grad_y_f(i);
    let s = sigmoid(gate);
    grad_x_put(at, g * up * (s * (1.0 + gate * (1.0 - s))));
    grad_x_put(at + columns, g * gate * s);
  }
}
