// Rows of tables with their gradients, and elements by their indices.

KERNEL(embedding_f16, MIN(PARTS(tokens * columns, 256), 16384), 256)
MAIN {
  FOR_EACH(i, tokens * columns) {
    let t = i / columns;
    let c = i % columns;
    let id = ids_i(t);
    if (id < 0 || id >= vocabulary) { fail(INDEX_RANGE); continue; }
    y_put(t * y_stride + c, f32_of_half(w_h(id * columns + c)));
  }
}

ALSO(embedding_bf16, embedding_f16, f32_of_half => f32_of_bfloat)

KERNEL(embedding_copy, MIN(PARTS(tokens * columns, 256), 16384), 256, element_bytes, id_bytes)
ATOMIC(embedding_copy, element_bytes < 4)
MAIN {
  FOR_EACH(i, tokens * columns) {
    let t = i / columns;
    let c = i % columns;
    let id = ids_el(t, id_bytes);
    if (id.x >= u32(vocabulary) || (id_bytes == 8 && id.y != 0u)) { fail(INDEX_RANGE); continue; }
    y_put_el(t * y_stride + c, element_bytes, w_el(i32(id.x) * columns + c, element_bytes));
  }
}

KERNEL(gather, MIN(PARTS(PRODUCT(rank, shape0), 256), 16384), 256, element_bytes, index_type)
TAKES(gather, (index_type == TYPE_int64) + (index_type == TYPE_int32))
fn element(i: i32) -> vec2<u32> {
  let at = index_el(place(i, rank, SIX(shape), SIX(index)), index_type_bytes);
  if (at.x >= u32(size) || at.y != 0u) { fail(INDEX_RANGE); return vec2<u32>(0u, 0u); }
  var stride = SIX(x);
  let along = stride[dim];
  stride[dim] = 0;
  return x_el(place(i, rank, SIX(shape), stride) + i32(at.x) * along, element_bytes);
}
MAIN {
  DENSE(y, element_bytes, size_of(rank, SIX(shape)));
}

KERNEL(where, MIN(PARTS(CHOOSE(rank == 0, 1, PRODUCT(rank, shape0)), 256), 16384), 256, element_bytes)
fn five(s0: i32, s1: i32, s2: i32, s3: i32, s4: i32) -> array<i32, 6> { return array<i32, 6>(s0, s1, s2, s3, s4, 0); }
fn element(i: i32) -> vec2<u32> {
  let shape = five(shape0, shape1, shape2, shape3, shape4);
  if (condition_b(place(i, rank, shape, five(c0, c1, c2, c3, c4))) != 0u) {
    if (a_given) { return a_el(place(i, rank, shape, five(a0, a1, a2, a3, a4)), element_bytes); }
    return vec2<u32>(a_bits_low, a_bits_high);
  }
  if (b_given) { return b_el(place(i, rank, shape, five(b0, b1, b2, b3, b4)), element_bytes); }
  return vec2<u32>(b_bits_low, b_bits_high);
}
MAIN {
  DENSE(y, element_bytes, size_of(rank, five(shape0, shape1, shape2, shape3, shape4)));
}

KERNEL(index_get, MIN(PARTS(outer * count * inner, 256), 16384), 256, element_bytes)
// What one index adds to the place: -1 where it is out of range.
fn step_of(given: bool, at: vec2<u32>, size: i32, stride: i32) -> i32 {
  if (!given) { return 0; }
  var k = i32(at.x);
  if (negative == 1 && k < 0) { k += size; }
  if (k < 0 || k >= size || at.y != u32(i32(at.x) >> 31u)) { fail(INDEX_RANGE); return 0; }
  return k * stride;
}
fn element(i: i32) -> vec2<u32> {
  let n = i / inner % count;
  let at = i / inner / count * x_outer + step_of(true, index0_el(n, 8), size0, stride0) + step_of(index1_given, index1_el(n, 8), size1, stride1) +
           step_of(index2_given, index2_el(n, 8), size2, stride2) + step_of(index3_given, index3_el(n, 8), size3, stride3);
  return x_el(at + i % inner, element_bytes);
}
MAIN {
  DENSE(y, element_bytes, outer * count * inner);
}

STEP(embedding_backward_f32, MIN(PARTS(vocabulary * columns, 256), 16384), 256)
MAIN {
  FOR_EACH(i, vocabulary * columns) {
    grad_w_put(i, 0.0);
  }
}

// A group for each token: the first of those with the same id adds up the rows of all, in their order.
KERNEL(embedding_backward_f32, tokens, 64, id_bytes)
var<workgroup> earlier: atomic<u32>;
var<workgroup> is_later: u32;
var<workgroup> same: array<u32, 64>;
MAIN {
  if (gid >= tokens) { return; }
  let id = ids_el(gid, id_bytes);
  let wrong = id.x >= u32(vocabulary) || (id_bytes == 8 && id.y != 0u);
  if (wrong && tid == 0) { fail(INDEX_RANGE); }
  for (var n = tid; n < gid; n += THREADS) {
    if (is_equal(ids_el(n, id_bytes), id)) { atomicStore(&earlier, 1u); }
  }
  workgroupBarrier();
  if (tid == 0) { is_later = max(atomicLoad(&earlier), select(0u, 1u, wrong)); }
  if (workgroupUniformLoad(&is_later) != 0u) { return; }
  for (var base = gid; base < tokens; base += THREADS) {
    workgroupBarrier();
    same[tid] = 0u;
    if (base + tid < tokens) { same[tid] = select(0u, 1u, is_equal(ids_el(base + tid, id_bytes), id)); }
    workgroupBarrier();
    for (var j = 0; j < 64; j++) {
      if (same[j] == 0u) { continue; }
      for (var c = tid; c < columns; c += THREADS) {
        let at = i32(id.x) * columns + c;
        grad_w_put(at, grad_w_f(at) + grad_y_f((base + j) * columns + c));
      }
    }
  }
}

KERNEL(one_hot, MIN(PARTS(count * classes, 256), 16384), 256, type, index_type)
fn element(i: i32) -> vec2<u32> {
  let at = whole_of(index_el(i / classes, index_type_bytes), index_type);
  if (at.y != 0u || at.x >= u32(classes)) { fail(INDEX_RANGE); }
  let hit = at.y == 0u && at.x == u32(i % classes);
  if (is_float(type)) { return element_of(select(0.0, 1.0, hit), type); }
  return vec2<u32>(select(0u, 1u, hit), 0u);
}
MAIN {
  DENSE(y, type_bytes, count * classes);
}
