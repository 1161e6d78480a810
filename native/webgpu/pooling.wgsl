// Pools of one to three dims, and their gradients.

// The elements of a window along a dim: the first, how many, and the step between two; and with those of the padding.
struct Span { first: i32, count: i32, step: i32, all: i32 }
fn span_of(at: i32, size: i32, out: i32, kernel: i32, stride: i32, pad: i32, dilation: i32) -> Span {
  if (kernel == 0) {
    let first = at * size / out;
    let end = ((at + 1) * size + out - 1) / out;
    return Span(first, end - first, 1, end - first);
  }
  let start = at * stride - pad;
  let missing = select(0, (dilation - 1 - start) / dilation, start < 0);
  let limit = select(0, (size - start + dilation - 1) / dilation, start < size);
  return Span(start + missing * dilation, max(0, min(limit, kernel) - missing), dilation, min(size + pad - start, kernel));
}

// The first and the last window that may have element e.
fn windows_of(e: i32, size: i32, out: i32, kernel: i32, stride: i32, pad: i32, dilation: i32) -> vec2<i32> {
  if (kernel == 0) { return vec2<i32>(max(0, e * out / size - 1), min(out - 1, ((e + 1) * out + size - 1) / size)); }
  return vec2<i32>((max(0, e + pad - (kernel - 1) * dilation) + stride - 1) / stride, min(out - 1, (e + pad) / stride));
}
fn has(a: Span, e: i32) -> bool { return e >= a.first && (e - a.first) % a.step == 0 && (e - a.first) / a.step < a.count; }

KERNEL(max_pool, MIN(PARTS(planes * out0 * out1 * out2, 256), 16384), 256, type)
TAKES(max_pool, (type == TYPE_float32) + (type == TYPE_float16) + (type == TYPE_bfloat16))
// Where the largest element of window i is in its plane: the first of equal ones, but the last NaN; -1 for none.
fn largest(i: i32) -> i32 {
  let plane = i / (out0 * out1 * out2) * size0 * size1 * size2;
  let a = span_of(i / (out1 * out2) % out0, size0, out0, kernel0, stride0, pad0, dilation0);
  let b = span_of(i / out2 % out1, size1, out1, kernel1, stride1, pad1, dilation1);
  let c = span_of(i % out2, size2, out2, kernel2, stride2, pad2, dilation2);
  if (a.count == 0 || b.count == 0 || c.count == 0) { return -1; }
  var found = (a.first * size1 + b.first) * size2 + c.first;
  var most = -infinity();
  for (var u = 0; u < a.count; u++) {
    for (var v = 0; v < b.count; v++) {
      for (var w = 0; w < c.count; w++) {
        let at = ((a.first + u * a.step) * size1 + b.first + v * b.step) * size2 + c.first + w * c.step;
        let value = float_of(x_el(plane + at, type_bytes), type);
        if (is_nan(value) || (!is_nan(most) && value > most)) { most = value; found = at; }
      }
    }
  }
  return found;
}
fn element(i: i32) -> vec2<u32> {
  let at = largest(i);
  if (at < 0) { return element_of(-infinity(), type); }
  return x_el(i / (out0 * out1 * out2) * size0 * size1 * size2 + at, type_bytes);
}
MAIN {
  if (y_given) {
    DENSE(y, type_bytes, planes * out0 * out1 * out2);
  }
  if (indices_given) {
    FOR_EACH(i, planes * out0 * out1 * out2) {
      let at = largest(i);
      indices_put_el(i, 8, vec2<u32>(u32(at), u32(at >> 31u)));
    }
  }
}

KERNEL(avg_pool, MIN(PARTS(planes * out0 * out1 * out2, 256), 16384), 256, type)
TAKES(avg_pool, (type == TYPE_float32) + (type == TYPE_float16) + (type == TYPE_bfloat16))
fn element(i: i32) -> vec2<u32> {
  let plane = i / (out0 * out1 * out2) * size0 * size1 * size2;
  let a = span_of(i / (out1 * out2) % out0, size0, out0, kernel0, stride0, pad0, dilation0);
  let b = span_of(i / out2 % out1, size1, out1, kernel1, stride1, pad1, dilation1);
  let c = span_of(i % out2, size2, out2, kernel2, stride2, pad2, dilation2);
  var sum = 0.0;
  for (var u = 0; u < a.count; u++) {
    for (var v = 0; v < b.count; v++) {
      for (var w = 0; w < c.count; w++) {
        let at = ((a.first + u * a.step) * size1 + b.first + v * b.step) * size2 + c.first + w * c.step;
        sum += float_of(x_el(plane + at, type_bytes), type);
      }
    }
  }
  var count = divisor;
  if (count == 0) { count = select(a.count * b.count * c.count, a.all * b.all * c.all, counted == 1); }
  return element_of(sum / f32(count), type);
}
MAIN {
  DENSE(y, type_bytes, planes * out0 * out1 * out2);
}

KERNEL(max_pool_backward, MIN(PARTS(planes * size0 * size1 * size2, 256), 16384), 256, type)
TAKES(max_pool_backward, (type == TYPE_float32) + (type == TYPE_float16) + (type == TYPE_bfloat16))
USES(max_pool_backward, max_pool)
fn element(i: i32) -> vec2<u32> {
  let plane = i / (size0 * size1 * size2);
  let at = i % (size0 * size1 * size2);
  let a = windows_of(at / (size1 * size2), size0, out0, kernel0, stride0, pad0, dilation0);
  let b = windows_of(at / size2 % size1, size1, out1, kernel1, stride1, pad1, dilation1);
  let c = windows_of(at % size2, size2, out2, kernel2, stride2, pad2, dilation2);
  var sum = 0.0;
  for (var u = a.x; u <= a.y; u++) {
    for (var v = b.x; v <= b.y; v++) {
      for (var w = c.x; w <= c.y; w++) {
        let window = ((plane * out0 + u) * out1 + v) * out2 + w;
        if (largest(window) == at) { sum += float_of(grad_y_el(window, type_bytes), type); }
      }
    }
  }
  return element_of(sum, type);
}
MAIN {
  DENSE(grad_x, type_bytes, planes * size0 * size1 * size2);
}

KERNEL(avg_pool_backward, MIN(PARTS(planes * size0 * size1 * size2, 256), 16384), 256, type)
TAKES(avg_pool_backward, (type == TYPE_float32) + (type == TYPE_float16) + (type == TYPE_bfloat16))
fn element(i: i32) -> vec2<u32> {
  let plane = i / (size0 * size1 * size2);
  let at = i % (size0 * size1 * size2);
  let e0 = at / (size1 * size2);
  let e1 = at / size2 % size1;
  let e2 = at % size2;
  let a = windows_of(e0, size0, out0, kernel0, stride0, pad0, dilation0);
  let b = windows_of(e1, size1, out1, kernel1, stride1, pad1, dilation1);
  let c = windows_of(e2, size2, out2, kernel2, stride2, pad2, dilation2);
  var sum = 0.0;
  for (var u = a.x; u <= a.y; u++) {
    let p = span_of(u, size0, out0, kernel0, stride0, pad0, dilation0);
    for (var v = b.x; v <= b.y; v++) {
      let q = span_of(v, size1, out1, kernel1, stride1, pad1, dilation1);
      for (var w = c.x; w <= c.y; w++) {
        let r = span_of(w, size2, out2, kernel2, stride2, pad2, dilation2);
        if (!(has(p, e0) && has(q, e1) && has(r, e2))) { continue; }
        var count = divisor;
        if (count == 0) { count = select(p.count * q.count * r.count, p.all * q.all * r.all, counted == 1); }
        sum += float_of(grad_y_el(((plane * out0 + u) * out1 + v) * out2 + w, type_bytes), type) / f32(count);
      }
    }
  }
  return element_of(sum, type);
}
MAIN {
  DENSE(grad_x, type_bytes, planes * size0 * size1 * size2);
}
