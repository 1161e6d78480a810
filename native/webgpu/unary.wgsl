// Functions of one element, of every type.

fn expm1_of(x: f32) -> f32 {
  if (abs(x) < 0.3) { return x * (1.0 + x * (0.5 + x * (0.16666667 + x * (0.041666667 + x * (0.0083333333 + x * 0.0013888889))))); }
  return exp(x) - 1.0;
}
fn log1p_of(x: f32) -> f32 {
  let u = 1.0 + x;
  if (u == 1.0 || u <= 0.0 || is_nan(x) || is_inf(x)) { return select(log_of(u), x, u == 1.0); }
  return log(u) * (x / (u - 1.0));
}
// (cos, sin), by what is left of quarter turns (Cody and Waite 1980).
fn turn(x: f32) -> vec2<f32> {
  if (is_nan(x) || is_inf(x)) { return vec2<f32>(nan(), nan()); }
  let quarters = round(x * 0.63661977);
  return turned(i32(quarters), ((x - quarters * 1.5703125) - quarters * 4.837512969970703e-4) - quarters * 7.54978995489188216e-8);
}
fn sinh_of(x: f32) -> f32 {
  let s = x * x;
  if (s < 0.25) { return x * (1.0 + s * (0.16666667 + s * (0.0083333333 + s * 1.9841270e-4))); }
  let half_exp = exp(0.5 * abs(x));
  return sign(x) * (0.5 * half_exp * half_exp - 0.5 / half_exp / half_exp);
}
fn cosh_of(x: f32) -> f32 {
  let half_exp = exp(0.5 * abs(x));
  return 0.5 * half_exp * half_exp + 0.5 / half_exp / half_exp;
}
fn asinh_of(x: f32) -> f32 {
  let a = abs(x);
  if (a > 1e9) { return sign(x) * (log_of(a) + 0.69314718); }
  return sign(x) * log1p_of(a + a * a / (1.0 + sqrt(a * a + 1.0)));
}
fn acosh_of(x: f32) -> f32 {
  if (x < 1.0) { return nan(); }
  if (x > 1e9) { return log_of(x) + 0.69314718; }
  return log1p_of((x - 1.0) + sqrt((x - 1.0) * (x + 1.0)));
}
fn of_float(x: f32, code: i32, p: f32, q: f32) -> f32 {
  switch code {
    case OP_neg: { return bitcast<f32>(bitcast<u32>(x) ^ 0x80000000u); }
    case OP_abs: { return abs(x); }
    case OP_sign: { return select(sign(x), 0.0, is_nan(x)); }
    case OP_square: { return x * x; }
    case OP_relu: { return select(0.0, x, x > 0.0 || is_nan(x)); }
    case OP_sqrt: { return sqrt(x); }
    case OP_rsqrt: { return 1.0 / sqrt(x); }
    case OP_reciprocal: { return 1.0 / x; }
    case OP_exp: { return exp(x); }
    case OP_exp2: { return exp2(x); }
    case OP_expm1: { return expm1_of(x); }
    case OP_log: { return log_of(x); }
    case OP_log2: { if (x > 0.0 && !is_inf(x)) { return log2(x); } return log_of(x); }
    case OP_log10: { return log_of(x) * 0.43429448; }
    case OP_log1p: { return log1p_of(x); }
    case OP_sin: { return turn(x).y; }
    case OP_cos: { return turn(x).x; }
    case OP_tan: { let t = turn(x); return t.y / t.x; }
    case OP_asin: { if (abs(x) > 1.0) { return nan(); } return atan2(x, sqrt((1.0 - x) * (1.0 + x))); }
    case OP_acos: { if (abs(x) > 1.0) { return nan(); } return atan2(sqrt((1.0 - x) * (1.0 + x)), x); }
    case OP_sinh: { if (is_nan(x) || x == 0.0) { return x; } return sinh_of(x); }
    case OP_cosh: { return cosh_of(x); }
    case OP_asinh: { if (is_nan(x) || x == 0.0) { return x; } return asinh_of(x); }
    case OP_acosh: { if (is_nan(x)) { return x; } return acosh_of(x); }
    case OP_atanh: { if (is_nan(x) || x == 0.0) { return x; } let a = abs(x); return 0.5 * sign(x) * log1p_of(2.0 * a / (1.0 - a)); }
    case OP_atan: { return atan(x); }
    case OP_tanh: { return tanh_of(x); }
    case OP_sigmoid: { return sigmoid(x); }
    case OP_logsigmoid: { return min(x, 0.0) - log1p_of(exp(-abs(x))); }
    case OP_silu: { return silu_of(x); }
    case OP_gelu: { return gelu_of(x); }
    case OP_gelu_tanh: { return 0.5 * x * (1.0 + tanh_of(0.79788456 * (x + 0.044715 * x * x * x))); }
    case OP_leaky_relu: { return select(x, x * p, x < 0.0); }
    case OP_elu: { if (x < 0.0) { return p * expm1_of(x); } return x; }
    case OP_softplus: { if (p * x > q) { return x; } return (max(p * x, 0.0) + log1p_of(exp(-abs(p * x)))) / p; }
    case OP_mish: { return x * tanh_of(max(x, 0.0) + log1p_of(exp(-abs(x)))); }
    case OP_clamp: { if (is_nan(x)) { return x; } return min(max(x, p), q); }
    case OP_hardsigmoid: { return clamp(x + 3.0, 0.0, 6.0) / 6.0; }
    case OP_hardswish: { return x * clamp(x + 3.0, 0.0, 6.0) / 6.0; }
    case OP_erf: { return erf_of(x); }
    case OP_erfc: { return erfc_of(x); }
    case OP_floor: { return floor(x); }
    case OP_ceil: { return ceil(x); }
    case OP_round: { return round(x); }
    case OP_trunc: { return trunc(x); }
    case OP_frac: { return x - trunc(x); }
    default: { return x; }
  }
}
fn of_truth(x: f32, code: i32) -> bool {
  switch code {
    case OP_isnan: { return is_nan(x); }
    case OP_isinf: { return is_inf(x); }
    case OP_isfinite: { return !is_nan(x) && !is_inf(x); }
    case OP_isposinf: { return bitcast<u32>(x) == INFINITY_BITS; }
    case OP_isneginf: { return bitcast<u32>(x) == (INFINITY_BITS | 0x80000000u); }
    case OP_signbit: { return (bitcast<u32>(x) >> 31u) == 1u; }
    default: { return x == 0.0; }
  }
}
fn of_whole(x: vec2<u32>, code: i32, kind: i32) -> vec2<u32> {
  let negative = (x.y >> 31u) == 1u;
  switch code {
    case OP_neg: { return negated(x); }
    case OP_abs: { return select(x, negated(x), negative); }
    case OP_sign: { return select(vec2<u32>(select(0u, 1u, (x.x | x.y) != 0u), 0u), vec2<u32>(0xffffffffu, 0xffffffffu), negative); }
    case OP_square: { return product_of(x, x); }
    case OP_relu: { return select(x, vec2<u32>(0u, 0u), negative); }
    case OP_bitwise_not: { if (kind == TYPE_bool) { return vec2<u32>(1u - x.x, 0u); } return ~x; }
    case OP_signbit: { return vec2<u32>(select(0u, 1u, negative), 0u); }
    default: { return vec2<u32>(select(0u, 1u, (x.x | x.y) == 0u), 0u); }
  }
}
fn of_any(e: vec2<u32>, code: i32, kind: i32, p: f32, q: f32) -> vec2<u32> {
  if (!is_float(kind)) { return of_whole(whole_of(e, kind), code, kind); }
  let x = float_of(e, kind);
  if (code >= OP_isnan) { return vec2<u32>(select(0u, 1u, of_truth(x, code)), 0u); }
  return element_of(of_float(x, code, p, q), kind);
}

KERNEL(unary, MIN(PARTS(count, 256), 16384), 256, opcode, type)
TAKES(unary, (type > 10) * (type < TYPE_float64) * (opcode != OP_sinc) * (opcode != OP_erfinv) * (opcode != OP_lgamma) * (opcode != OP_digamma) * (opcode != OP_trigamma) * (opcode != OP_i0) * (opcode != OP_bitwise_not) + (type < 9) * (type != TYPE_uint32) * (type != TYPE_uint64) * (type != TYPE_uint16))
const result_bytes = select(type_bytes, 1, opcode >= OP_isnan);
fn element(i: i32) -> vec2<u32> {
  return of_any(x_el(i, type_bytes), opcode, type, f32_of_f64(first_low, first_high), f32_of_f64(second_low, second_high));
}
MAIN {
  DENSE(y, result_bytes, count);
}

KERNEL(unary_strided, MIN(PARTS(PRODUCT(rank, shape0), 256), 16384), 256, opcode, type)
TAKES(unary_strided, (type > 10) * (type < TYPE_float64) * (opcode != OP_sinc) * (opcode != OP_erfinv) * (opcode != OP_lgamma) * (opcode != OP_digamma) * (opcode != OP_trigamma) * (opcode != OP_i0) * (opcode != OP_bitwise_not) + (type < 9) * (type != TYPE_uint32) * (type != TYPE_uint64) * (type != TYPE_uint16))
const result_bytes = select(type_bytes, 1, opcode >= OP_isnan);
fn element(i: i32) -> vec2<u32> {
  let e = x_el(place(i, rank, SIX(shape), SIX(x)), type_bytes);
  return of_any(e, opcode, type, f32_of_f64(first_low, first_high), f32_of_f64(second_low, second_high));
}
MAIN {
  DENSE(y, result_bytes, size_of(rank, SIX(shape)));
}
