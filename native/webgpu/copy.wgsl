// Copies, fills and new values.

KERNEL(copy_bytes, MIN(PARTS(bytes + 3, 1024), 16384), 256)
// The word at byte k of `from`.
fn word(k: i32) -> u32 {
  let b = from_off() + u32(k);
  let s = (b & 3u) * 8u;
  let low = from_raw(b >> 2u) >> s;
  if (s == 0u) { return low; }
  return low | (from_raw((b >> 2u) + 1u) << (32u - s));
}
MAIN {
  let skipped = i32(to_off() & 3u);
  FOR_EACH(i, (skipped + bytes + 3) / 4) {
    let at = (to_off() >> 2u) + u32(i);
    let k = 4 * i - skipped;
    if (k >= 0 && k + 4 <= bytes) { to_put_raw(at, word(k)); continue; }
    var v = to_raw(at);
    for (var e = 0; e < 4; e++) {
      if (k + e >= 0 && k + e < bytes) { v = (v & ~(0xffu << u32(8 * e))) | (from_b(k + e) << u32(8 * e)); }
    }
    to_put_raw(at, v);
  }
}

KERNEL(copy_strided, MIN(PARTS(PRODUCT(rank, shape0), 256), 16384), 256, element_bytes)
ATOMIC(copy_strided, element_bytes < 4)
TAKES(copy_strided, (element_bytes == 1) + (element_bytes == 2) + (element_bytes == 4) + (element_bytes == 8))
MAIN {
  FOR_EACH(i, size_of(rank, SIX(shape))) {
    to_put_el(place(i, rank, SIX(shape), SIX(to)), element_bytes, from_el(place(i, rank, SIX(shape), SIX(from)), element_bytes));
  }
}

KERNEL(fill_f32, MIN(PARTS(count, 256), 16384), 256)
MAIN {
  FOR_EACH(i, count) {
    y_put(i, value);
  }
}

KERNEL(fill, MIN(PARTS(count, 256), 16384), 256, type)
fn element(i: i32) -> vec2<u32> {
  if (is_float(type)) { return element_of(f32_of_f64(number_low, number_high), type); }
  return vec2<u32>(number_low, number_high);
}
MAIN {
  DENSE(y, type_bytes, count);
}

KERNEL(arange, MIN(PARTS(count, 256), 16384), 256, type)
TAKES(arange, (type == TYPE_int64) + (type == TYPE_int32))
fn element(i: i32) -> vec2<u32> {
  return sum_of(vec2<u32>(start_low, start_high), product_of(vec2<u32>(u32(i), 0u), vec2<u32>(step_low, step_high)));
}
MAIN {
  DENSE(y, type_bytes, count);
}

KERNEL(cast, MIN(PARTS(PRODUCT(rank, shape0), 256), 16384), 256, y_type, x_type)
TAKES(cast, (y_type != TYPE_float64) * (x_type != TYPE_float64) * ((y_type > 10) + (y_type < 9)) * ((x_type > 10) + (x_type < 9)))
fn element(i: i32) -> vec2<u32> {
  let e = x_el(place(i, rank, SIX(shape), SIX(x)), x_type_bytes);
  if (x_type == y_type) { return e; }
  if (is_float(y_type)) { return element_of(float_of(e, x_type), y_type); }
  if (is_float(x_type)) {
    let v = float_of(e, x_type);
    if (y_type == TYPE_bool) { return vec2<u32>(select(0u, 1u, v != 0.0 || is_nan(v)), 0u); }
    let w = whole_of_float(v);
    if (y_type_bytes <= 4 && y_type != TYPE_uint32 && !(w.y == u32(i32(w.x) >> 31u))) { return vec2<u32>(0x80000000u, 0u); }
    return w;
  }
  let w = whole_of(e, x_type);
  if (y_type == TYPE_bool) { return vec2<u32>(select(0u, 1u, (w.x | w.y) != 0u), 0u); }
  return w;
}
MAIN {
  DENSE(y, y_type_bytes, size_of(rank, SIX(shape)));
}

KERNEL(f16_to_f32, MIN(PARTS(count, 256), 16384), 256)
MAIN {
  FOR_EACH(i, count) {
    y_put(i, f32_of_half(x_h(i)));
  }
}

ALSO(bf16_to_f32, f16_to_f32, f32_of_half => f32_of_bfloat)

KERNEL(f32_to_f16, MIN(PARTS(count, 256), 16384), 256)
fn element(i: i32) -> vec2<u32> { return vec2<u32>(half_of_f32(x_f(i)), 0u); }
MAIN {
  DENSE(y, 2, count);
}

ALSO(f32_to_bf16, f32_to_f16, half_of_f32 => bfloat_of_f32)

KERNEL(triangular, MIN(PARTS(batch * rows * columns, 256), 16384), 256, element_bytes)
fn element(i: i32) -> vec2<u32> {
  let c = i % columns;
  let r = i / columns % rows;
  let b = i / columns / rows;
  let out_ = select(c - r > diagonal, c - r < diagonal, upper == 1);
  if (out_) { return vec2<u32>(0u, 0u); }
  return x_el(b * x_batch + r * x_row + c * x_column, element_bytes);
}
MAIN {
  DENSE(y, element_bytes, batch * rows * columns);
}
