// What every kernel of this folder has. Python reads the sources (pyapp/engine/gpu/wgsl.py) and makes the WGSL of one kernel for
// one kind of record of them. Kernels have the names and slots of kernels.h.
//
//   KERNEL(name, groups, threads, dim ...)  `groups` groups of `threads` threads run it. A dim that is named here becomes a
//                                           constant of the text: each of its values is a program of its own. So does what
//                                           an expression gives: few=rows < 8 makes `few` 0 or 1.
//   TAKES(name, condition)                  Records for which this is 0 have no kernel.
//   ATOMIC(name, condition)                 Records whose threads write parts of one word: what it writes are atomics.
//   STEP(name, groups, threads, dim ...)    A program that runs before the kernel `name`, which comes next, for the same records.
//   BETWEEN(name, bytes)                    What steps leave for those after them lies behind the pointer `between`.
//   ALSO(name, other, text => text ...)     The kernel `other` of this file with other texts is this one. Lines may follow it.
//   USES(name, other)                       The functions of `other` of this file, before its `element`, are this one's, too.
//   MAIN {                                  begins the function that each thread runs.
//
// What stands between a KERNEL line and the next is that kernel's; what stands before the first belongs to all of the file.
// In it the names of dims and floats are the record's: `number_low` and `number_high` are the words of one of 64 bits,
// `type_bytes` the size of a type that is a constant. TYPE_float32 and OP_exp are numbers.
//
// A pointer x has functions: x_f(i), x_i(i), x_u(i) read word i from it as float32, int32 or uint32, x_h(i) and x_b(i) 16 and 8
// bits, x_el(i, bytes) an element of 1 to 8 bytes. x_put(i, v), x_put_u(i, v) and x_put_el(i, bytes, v) write. Elements of one or
// two bytes are written by x_put_el where the kernel is atomic, else by DENSE. x_off() is its place in its buffer in bytes,
// x_raw(w) a word of that. x_given says whether a pointer is there.
//
// In MAIN, `tid` is the thread in its group, `gid` the group, `own` the thread among all, `total` how many there are.
// FOR_EACH(i, count) { divides elements among all threads. DENSE(y, bytes, count); writes element(i) to a dense y: of 32 or 64
// bits as one thread has it, of fewer as whole words. fail(code) reports a KERNEL_* code.

const INDEX_RANGE = 1u;
const POSITION_RANGE = 2u;
const BAD_ARGUMENT = 3u;
const DIVISION_BY_ZERO = 5u;
const INFINITY_BITS = 0x7f800000u;
const LOWEST = -3.4028234e38;

fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > INFINITY_BITS; }
fn is_inf(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == INFINITY_BITS; }
// WGSL refuses constants that are not finite: the bits are made when it runs.
fn infinity() -> f32 { return bitcast<f32>(INFINITY_BITS | (P[0].x & 0u)); }
fn nan() -> f32 { return bitcast<f32>(0x7fc00000u | (P[0].x & 0u)); }

// Whether to take a before b for the largest: NaN counts as the largest.
fn above(a: f32, b: f32) -> bool { return !is_nan(b) && (is_nan(a) || a > b); }

fn f32_of_half(h: u32) -> f32 {
  let sign = (h & 0x8000u) << 16u;
  let e = (h >> 10u) & 31u;
  let m = h & 0x3ffu;
  if (e == 0u) { return bitcast<f32>(bitcast<u32>(f32(m) * 5.9604644775390625e-8) | sign); }
  return bitcast<f32>(sign | select((e + 112u) << 23u, INFINITY_BITS, e == 31u) | (m << 13u));
}

fn half_of_f32(x: f32) -> u32 {
  let b = bitcast<u32>(x);
  let sign = (b >> 16u) & 0x8000u;
  let a = b & 0x7fffffffu;
  if (a > INFINITY_BITS) { return sign | 0x7e00u; }
  if (a >= 0x47800000u) { return sign | 0x7c00u; }
  if (a < 0x38800000u) { // subnormal: in units of 2^-24, ties to even
    let e = a >> 23u;
    if (e < 102u) { return sign; }
    let m = (a & 0x7fffffu) | 0x800000u;
    let s = 126u - e;
    let rest = m & ((1u << s) - 1u);
    let middle = 1u << (s - 1u);
    let q = m >> s;
    return sign | (q + select(0u, 1u, rest > middle || (rest == middle && (q & 1u) == 1u)));
  }
  let r = a - 0x38000000u;
  return sign | ((r + 0xfffu + ((r >> 13u) & 1u)) >> 13u);
}

fn f32_of_bfloat(h: u32) -> f32 { return bitcast<f32>(h << 16u); }
fn bfloat_of_f32(x: f32) -> u32 {
  let b = bitcast<u32>(x);
  if (is_nan(x)) { return 0x7fc0u; }
  return (b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u;
}

// The nearest float32 to a float64 of these words; smaller than the normal ones is 0.
fn f32_of_f64(low: u32, high: u32) -> f32 {
  let sign = high & 0x80000000u;
  let e = i32((high >> 20u) & 0x7ffu);
  let m = ((high & 0xfffffu) << 3u) | (low >> 29u);
  if (e == 0x7ff) { return bitcast<f32>(sign | INFINITY_BITS | select(0u, 0x400000u, m != 0u || low != 0u)); }
  if (e < 897) { return bitcast<f32>(sign); }
  if (e > 1150) { return bitcast<f32>(sign | INFINITY_BITS); }
  let rest = low & 0x1fffffffu;
  let up = select(0u, 1u, rest > 0x10000000u || (rest == 0x10000000u && (m & 1u) == 1u));
  return bitcast<f32>(sign | ((u32(e - 896) << 23u) + m + up));
}

fn is_float(kind: i32) -> bool { return kind == TYPE_float32 || kind == TYPE_float16 || kind == TYPE_bfloat16; }

// An element as float32.
fn float_of(e: vec2<u32>, kind: i32) -> f32 {
  switch kind {
    case TYPE_float32: { return bitcast<f32>(e.x); }
    case TYPE_float16: { return f32_of_half(e.x); }
    case TYPE_bfloat16: { return f32_of_bfloat(e.x); }
    case TYPE_uint32: { return f32(e.x); }
    case TYPE_int64, TYPE_uint64: {
      if (e.y == 0u) { return f32(e.x); }
      if (e.y == 0xffffffffu && (e.x >> 31u) == 1u && kind == TYPE_int64) { return f32(i32(e.x)); }
      let high = select(f32(e.y), f32(i32(e.y)), kind == TYPE_int64);
      return high * 4294967296.0 + f32(e.x);
    }
    default: { return f32(i32(whole_of(e, kind).x)); }
  }
}

// An element of whole numbers with 64 bits; of bools 0 or 1.
fn whole_of(e: vec2<u32>, kind: i32) -> vec2<u32> {
  var x = e.x;
  switch kind {
    case TYPE_int64, TYPE_uint64: { return e; }
    case TYPE_uint32, TYPE_uint16, TYPE_uint8: { return vec2<u32>(x, 0u); }
    case TYPE_bool: { return vec2<u32>(select(0u, 1u, x != 0u), 0u); }
    case TYPE_int16: { x = u32(i32(x << 16u) >> 16u); }
    case TYPE_int8: { x = u32(i32(x << 24u) >> 24u); }
    default: {}
  }
  return vec2<u32>(x, u32(i32(x) >> 31u));
}

// A float32 as an element of a float type.
fn element_of(x: f32, kind: i32) -> vec2<u32> {
  switch kind {
    case TYPE_float16: { return vec2<u32>(half_of_f32(x), 0u); }
    case TYPE_bfloat16: { return vec2<u32>(bfloat_of_f32(x), 0u); }
    default: { return vec2<u32>(bitcast<u32>(x), 0u); }
  }
}

// A float32 as a whole number of 64 bits, towards zero; the smallest where none holds it.
fn whole_of_float(x: f32) -> vec2<u32> {
  if (is_nan(x) || abs(x) >= 9.2233720368547758e18) { return vec2<u32>(0u, 0x80000000u); }
  let a = floor(abs(x));
  let high = u32(floor(a / 4294967296.0));
  let low = u32(a - f32(high) * 4294967296.0);
  return select(vec2<u32>(low, high), negated(vec2<u32>(low, high)), x < 0.0);
}

fn negated(a: vec2<u32>) -> vec2<u32> { return vec2<u32>(~a.x + 1u, ~a.y + select(0u, 1u, a.x == 0u)); }
fn sum_of(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}
// a * b of 32 bits each.
fn wide_product(a: u32, b: u32) -> vec2<u32> {
  let ll = (a & 0xffffu) * (b & 0xffffu);
  let lh = (a & 0xffffu) * (b >> 16u);
  let hl = (a >> 16u) * (b & 0xffffu);
  let middle = (ll >> 16u) + (lh & 0xffffu) + (hl & 0xffffu);
  return vec2<u32>((ll & 0xffffu) | (middle << 16u), (a >> 16u) * (b >> 16u) + (lh >> 16u) + (hl >> 16u) + (middle >> 16u));
}
fn product_of(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let p = wide_product(a.x, b.x);
  return vec2<u32>(p.x, p.y + a.x * b.y + a.y * b.x);
}
// a / b and its rest, of whole numbers without signs.
fn divided(a: vec2<u32>, b: vec2<u32>) -> array<vec2<u32>, 2> {
  if ((a.y | b.y) == 0u) { return array<vec2<u32>, 2>(vec2<u32>(a.x / b.x, 0u), vec2<u32>(a.x % b.x, 0u)); }
  var quotient = vec2<u32>(0u, 0u);
  var rest = vec2<u32>(0u, 0u);
  for (var k = 63u; k < 64u; k--) { // until it wraps
    let carried = (rest.y >> 31u) == 1u;
    rest = vec2<u32>((rest.x << 1u) | (select(a.x >> (k & 31u), a.y >> (k & 31u), k > 31u) & 1u), (rest.y << 1u) | (rest.x >> 31u));
    if (carried || rest.y > b.y || (rest.y == b.y && rest.x >= b.x)) {
      rest = sum_of(rest, negated(b));
      if (k > 31u) { quotient.y |= 1u << (k & 31u); } else { quotient.x |= 1u << k; }
    }
  }
  return array<vec2<u32>, 2>(quotient, rest);
}
fn is_less(a: vec2<u32>, b: vec2<u32>) -> bool { return i32(a.y) < i32(b.y) || (a.y == b.y && a.x < b.x); }
fn is_equal(a: vec2<u32>, b: vec2<u32>) -> bool { return a.x == b.x && a.y == b.y; }

// Where element `i` of a shape lies.
fn place(i: i32, rank: i32, shape: array<i32, 6>, stride: array<i32, 6>) -> i32 {
  var rest = i;
  var at = 0;
  if (rank > 5) { at += rest % shape[5] * stride[5]; rest /= shape[5]; }
  if (rank > 4) { at += rest % shape[4] * stride[4]; rest /= shape[4]; }
  if (rank > 3) { at += rest % shape[3] * stride[3]; rest /= shape[3]; }
  if (rank > 2) { at += rest % shape[2] * stride[2]; rest /= shape[2]; }
  if (rank > 1) { at += rest % shape[1] * stride[1]; rest /= shape[1]; }
  if (rank > 0) { at += rest * stride[0]; }
  return at;
}
fn size_of(rank: i32, shape: array<i32, 6>) -> i32 {
  var n = 1;
  for (var d = 0; d < rank; d++) { n *= shape[d]; }
  return n;
}

fn bytes_of(w: u32) -> vec4<i32> {
  return vec4<i32>(extractBits(i32(w), 0u, 8u), extractBits(i32(w), 8u, 8u), extractBits(i32(w), 16u, 8u), extractBits(i32(w), 24u, 8u));
}

// Cards may give any number for the logarithms of what is not positive and finite.
fn log_of(x: f32) -> f32 {
  if (x == 0.0) { return -infinity(); }
  if (x < 0.0 || is_nan(x)) { return nan(); }
  return select(log(x), x, is_inf(x));
}
// (cos, sin) of so many quarter turns and an angle of at most an eighth: what WGSL promises of its own is coarse, and nothing
// beyond pi.
fn turned(quarters: i32, a: f32) -> vec2<f32> {
  let s = a * a;
  let cosine = 1.0 + s * (-0.5 + s * (0.041666667 + s * (-0.0013888889 + s * 2.4801587e-5)));
  let sine = a * (1.0 + s * (-0.16666667 + s * (0.0083333333 + s * (-1.9841270e-4 + s * 2.7557319e-6))));
  switch quarters & 3 {
    case 0: { return vec2<f32>(cosine, sine); }
    case 1: { return vec2<f32>(-sine, cosine); }
    case 2: { return vec2<f32>(-cosine, -sine); }
    default: { return vec2<f32>(sine, -cosine); }
  }
}
fn sigmoid(x: f32) -> f32 { return 1.0 / (1.0 + exp(-clamp(x, -87.0, 87.0))); }
fn tanh_of(x: f32) -> f32 { // exact near 0, where 1 - 2 / (exp(2 x) + 1) is not
  if (is_nan(x)) { return x; }
  let a = abs(x);
  if (a < 0.1) { let s = x * x; return x * (1.0 + s * (-0.33333333 + s * (0.13333333 - s * 0.05396825))); }
  return sign(x) * (1.0 - 2.0 / (exp(2.0 * min(a, 10.0)) + 1.0));
}
// Abramowitz and Stegun 7.1.26 has 1.5e-7; this is W. J. Cody's form by parts, of 1e-7 relative.
fn erf_of(x: f32) -> f32 {
  let a = abs(x);
  if (a < 0.5) {
    let s = x * x;
    return x * (1.1283791671 + s * (-0.3761263890 + s * (0.1128379167 + s * (-0.0268661706 + s * (0.0052239776 - s * 0.00085483270)))));
  }
  let y = 1.0 - erfc_positive(min(a, 10.0));
  return select(y, -y, x < 0.0);
}
// Numerical Recipes' erfcc: 1.2e-7 relative.
fn erfc_positive(a: f32) -> f32 {
  let t = 1.0 / (1.0 + 0.5 * a);
  return t * exp(-a * a - 1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806 + t * (0.27886807 +
         t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277)))))))));
}
fn gelu_of(x: f32) -> f32 {
  if (x < 0.0) { return 0.5 * x * erfc_of(-x * 0.70710678); }
  return 0.5 * x * (1.0 + erf_of(x * 0.70710678));
}
fn erfc_of(x: f32) -> f32 {
  if (x < 0.5) { return 1.0 - erf_of(x); }
  return erfc_positive(min(x, 10.0));
}
fn silu_of(x: f32) -> f32 { return x * sigmoid(x); }

// ---- Weights in blocks (kernels.h, bands.h)

const ACTIVATION_WORDS = 10; // of 32 columns: int8, their scale and their sum
// Types of kernels.h's blocks: q4_0, and q4_K and q6_K, whose blocks have 256 columns in eight runs of 32.
const Q4_0 = 2;
const Q4_K = 12;
const Q6_K = 14;
// Words of a block of a band, and of a run in it.
fn words_of(kind: i32) -> i32 { return select(select(420, 296, kind == Q4_K), 36, kind == Q4_0); }
fn run_words(kind: i32) -> i32 { return select(52, 36, kind != Q6_K); }
fn low_nibbles(w: u32) -> u32 { return w & 0x0f0f0f0fu; }
fn high_nibbles(w: u32) -> u32 { return (w >> 4u) & 0x0f0f0f0fu; }
