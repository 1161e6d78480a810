// Random numbers.

// Philox4x32-10 (Salmon et al. 2011). A thread makes four numbers.
fn philox(counter: vec2<u32>, seed_: vec2<u32>) -> vec4<u32> {
  var key = seed_;
  var w = vec4<u32>(counter.x, counter.y, 0u, 0u);
  for (var k = 0; k < 10; k++) {
    let a = wide_product(w.x, 0xD2511F53u);
    let b = wide_product(w.z, 0xCD9E8D57u);
    w = vec4<u32>(b.y ^ w.y ^ key.x, b.x, a.y ^ w.w ^ key.y, a.x);
    key += vec2<u32>(0x9E3779B9u, 0xBB67AE85u);
  }
  return w;
}
fn unit_of(w: u32) -> f32 { return f32(w >> 8u) * 5.9604644775390625e-8; }
// (cos, sin) of 2 pi v for 0 <= v < 1: what WGSL promises of its own is coarse.
fn turned(v: f32) -> vec2<f32> {
  let quarter = round(4.0 * v);
  let a = (4.0 * v - quarter) * 1.5707963268;
  let s = a * a;
  let cosine = 1.0 + s * (-0.5 + s * (0.041666667 + s * (-0.0013888889 + s * 2.4801587e-5)));
  let sine = a * (1.0 + s * (-0.16666667 + s * (0.0083333333 + s * (-1.9841270e-4 + s * 2.7557319e-6))));
  switch i32(quarter) & 3 {
    case 0: { return vec2<f32>(cosine, sine); }
    case 1: { return vec2<f32>(-sine, cosine); }
    case 2: { return vec2<f32>(-cosine, -sine); }
    default: { return vec2<f32>(sine, -cosine); }
  }
}
// Box and Muller (1958).
fn normal_pair(a: u32, b: u32) -> vec2<f32> {
  return sqrt(-2.0 * log(f32((a >> 8u) + 1u) * 5.9604644775390625e-8)) * turned(unit_of(b));
}

KERNEL(random_uniform, MIN(PARTS(count, 1024), 16384), 256)
fn numbers_of(w: vec4<u32>) -> vec4<f32> { return vec4<f32>(unit_of(w.x), unit_of(w.y), unit_of(w.z), unit_of(w.w)); }
MAIN {
  var key = vec2<u32>(seed_low, seed_high);
  var begin = vec2<u32>(offset_low, offset_high);
  if (state_given) {
    key = vec2<u32>(state_u(0), state_u(1));
    begin = sum_of(begin, vec2<u32>(state_u(2), state_u(3)));
  }
  FOR_EACH(i, (count + 3) / 4) {
    let found = numbers_of(philox(sum_of(begin, vec2<u32>(u32(i), 0u)), key));
    for (var k = 0; k < 4; k++) {
      if (4 * i + k < count) { y_put(4 * i + k, found[k]); }
    }
  }
}

ALSO(random_normal, random_uniform, vec4<f32>(unit_of(w.x), unit_of(w.y), unit_of(w.z), unit_of(w.w)) => vec4<f32>(normal_pair(w.x, w.y), normal_pair(w.z, w.w)))
