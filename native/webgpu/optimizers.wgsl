// Steps of optimisers.

KERNEL(adamw_f32, MIN(PARTS(count, 256), 16384), 256)
fn number_at(i: i32) -> f32 {
  if (numbers_given) { return f32_of_f64(numbers_u(2 * i), numbers_u(2 * i + 1)); }
  let numbers_here = array<vec2<u32>, 7>(
    vec2<u32>(number0_low, number0_high), vec2<u32>(number1_low, number1_high), vec2<u32>(number2_low, number2_high),
    vec2<u32>(number3_low, number3_high), vec2<u32>(number4_low, number4_high), vec2<u32>(number5_low, number5_high),
    vec2<u32>(number6_low, number6_high));
  return f32_of_f64(numbers_here[i].x, numbers_here[i].y);
}
MAIN {
  let rate = number_at(0);
  let beta1 = number_at(1);
  let beta2 = number_at(2);
  let least = number_at(3);
  let step = rate / number_at(5);
  let keep = 1.0 - rate * number_at(4);
  let root = sqrt(number_at(6));
  FOR_EACH(i, count) {
    let g = grad_f(i);
    let mean = m_f(i) * beta1 + g * (1.0 - beta1);
    let square = v_f(i) * beta2 + g * g * (1.0 - beta2);
    m_put(i, mean);
    v_put(i, square);
    parameter_put(i, parameter_f(i) * keep - step * mean / (sqrt(square) / root + least));
  }
}

// Programs of kernels.h: registers 0 .. 5 are the tensors, 6 .. 13 intermediate values, 14 .. 29 numbers.
KERNEL(compute_f32, MIN(PARTS(count, 256), 16384), 256)
TAKES(compute_f32, half == 0)
MAIN {
  let numbers_here = array<vec2<u32>, 16>(
    vec2<u32>(number0_low, number0_high), vec2<u32>(number1_low, number1_high), vec2<u32>(number2_low, number2_high),
    vec2<u32>(number3_low, number3_high), vec2<u32>(number4_low, number4_high), vec2<u32>(number5_low, number5_high),
    vec2<u32>(number6_low, number6_high), vec2<u32>(number7_low, number7_high), vec2<u32>(number8_low, number8_high),
    vec2<u32>(number9_low, number9_high), vec2<u32>(number10_low, number10_high), vec2<u32>(number11_low, number11_high),
    vec2<u32>(number12_low, number12_high), vec2<u32>(number13_low, number13_high), vec2<u32>(number14_low, number14_high),
    vec2<u32>(number15_low, number15_high));
  var held_numbers = array<f32, 30>();
  for (var k = 0; k < 16; k++) {
    var e = numbers_here[k];
    if (k < held) { e = vec2<u32>(numbers_u(2 * k), numbers_u(2 * k + 1)); }
    held_numbers[14 + k] = f32_of_f64(e.x, e.y);
  }
  FOR_EACH(i, count) {
    var r = held_numbers;
    r[0] = x0_f(select(i, 0, (single & 1) != 0));
    if (x1_given) { r[1] = x1_f(select(i, 0, (single & 2) != 0)); }
    if (x2_given) { r[2] = x2_f(select(i, 0, (single & 4) != 0)); }
    if (x3_given) { r[3] = x3_f(select(i, 0, (single & 8) != 0)); }
    if (x4_given) { r[4] = x4_f(select(i, 0, (single & 16) != 0)); }
    if (x5_given) { r[5] = x5_f(select(i, 0, (single & 32) != 0)); }
    var written = 0u;
    for (var s = 0; s < steps; s++) {
      let to = program_b(5 * s + 1);
      let a = r[min(program_b(5 * s + 2), 29u)];
      let b = r[min(program_b(5 * s + 3), 29u)];
      let c = r[min(program_b(5 * s + 4), 29u)];
      var y = 0.0;
      switch i32(program_b(5 * s)) {
        case OP_add: { y = a + b; }
        case OP_sub: { y = a - b; }
        case OP_mul: { y = a * b; }
        case OP_div: { y = a / b; }
        case OP_maximum: { y = select(b, a, a > b || is_nan(a)); }
        case OP_minimum: { y = select(b, a, a < b || is_nan(a)); }
        case OP_greater: { y = select(0.0, 1.0, a > b); }
        case OP_where: { y = select(c, b, a != 0.0 || is_nan(a)); }
        case OP_multiply_add: { y = a * b + c; }
        case OP_sqrt: { y = sqrt(a); }
        case OP_abs: { y = abs(a); }
        default: { y = select(sign(a), 0.0, is_nan(a)); }
      }
      r[min(to, 13u)] = y;
      written |= 1u << min(to, 13u);
    }
    if ((written & 1u) != 0u) { x0_put(i, r[0]); }
    if (x1_given && (written & 2u) != 0u) { x1_put(i, r[1]); }
    if (x2_given && (written & 4u) != 0u) { x2_put(i, r[2]); }
    if (x3_given && (written & 8u) != 0u) { x3_put(i, r[3]); }
    if (x4_given && (written & 16u) != 0u) { x4_put(i, r[4]); }
    if (x5_given && (written & 32u) != 0u) { x5_put(i, r[5]); }
  }
}
