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
// Box and Muller (1958).
fn normal_pair(a: u32, b: u32) -> vec2<f32> {
  let quarters = 4.0 * unit_of(b);
  let angle = turned(i32(round(quarters)), (quarters - round(quarters)) * 1.5707963268);
  return sqrt(-2.0 * log(f32((a >> 8u) + 1u) * 5.9604644775390625e-8)) * angle;
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
