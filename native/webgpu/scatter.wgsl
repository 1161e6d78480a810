// Elements that are written by their indices, or combined with what is there.

fn joined(old: vec2<u32>, other: vec2<u32>, code: i32, kind: i32) -> vec2<u32> {
  if (code == OP_set) { return other; }
  if (is_float(kind)) {
    let a = float_of(old, kind);
    let b = float_of(other, kind);
    switch code {
      case OP_add: { return element_of(a + b, kind); }
      case OP_multiply: { return element_of(a * b, kind); }
      case OP_maximum: { return element_of(select(a, b, b > a || is_nan(b)), kind); }
      default: { return element_of(select(a, b, b < a || is_nan(b)), kind); }
    }
  }
  let a = whole_of(old, kind);
  let b = whole_of(other, kind);
  switch code {
    case OP_add: { return sum_of(a, b); }
    case OP_multiply: { return product_of(a, b); }
    case OP_maximum: { return select(a, b, is_less(a, b)); }
    default: { return select(a, b, is_less(b, a)); }
  }
}

// Lines along the dim are independent. Where they are many, a thread writes a line; else the thread of the first element for a
// place writes that place, with all later elements for it.
KERNEL(scatter, MIN(PARTS(PRODUCT(rank, shape0), 256), 16384), 256, opcode, type, index_type)
TAKES(scatter, (rank <= 4) * ((index_type == TYPE_int64) + (index_type == TYPE_int32)) * ((opcode == OP_set) * (type < 14) + (type == TYPE_float32) + (type == TYPE_float16) + (type == TYPE_bfloat16) + (type < 9) * (type != TYPE_uint32) * (type != TYPE_uint64) * (type != TYPE_uint16)))
ATOMIC(scatter, (type == TYPE_bool) + (type == TYPE_int8) + (type == TYPE_uint8) + (type == TYPE_int16) + (type == TYPE_uint16) + (type == TYPE_float16) + (type == TYPE_bfloat16) + (type == 9) + (type == 10))
fn four(s0: i32, s1: i32, s2: i32, s3: i32) -> array<i32, 6> { return array<i32, 6>(s0, s1, s2, s3, 0, 0); }
// The place that the index at `at` names; -1 where there is none.
fn place_named(at: i32) -> i32 {
  let e = index_el(at, index_type_bytes);
  let is_negative = e.y != 0u || e.x > 0x7fffffffu;
  if (is_negative || i32(e.x) >= size) { fail(INDEX_RANGE); return -1; }
  return i32(e.x);
}
MAIN {
  var shape = four(shape0, shape1, shape2, shape3);
  let along = shape[dim];
  shape[dim] = 1;
  let lines = size_of(rank, shape);
  var index_step = four(index0, index1, index2, index3)[dim];
  var y_step = four(y0, y1, y2, y3)[dim];
  var source_step = four(source0, source1, source2, source3)[dim];
  var constant = vec2<u32>(number_low, number_high);
  if (is_float(type)) { constant = element_of(f32_of_f64(number_low, number_high), type); }
  let by_line = lines >= 1024 || along > 16384;
  FOR_EACH(i, select(lines * along, lines, by_line)) {
    let line = select(i / along, i, by_line);
    let source_at = place(line, rank, shape, four(source0, source1, source2, source3));
    let names_at = place(line, rank, shape, four(index0, index1, index2, index3));
    let to = place(line, rank, shape, four(y0, y1, y2, y3));
    let first = select(i % along, 0, by_line);
    let named = place_named(names_at + first * index_step);
    var later = false;
    for (var k = 0; k < first && !later; k++) { later = place_named(names_at + k * index_step) == named; }
    for (var k = first; k < along && !later; k++) {
      let at = place_named(names_at + k * index_step);
      if (at < 0 || (!by_line && at != named)) { continue; }
      var value = constant;
      if (source_given) { value = source_el(source_at + k * source_step, type_bytes); }
      y_put_el(to + at * y_step, type_bytes, joined(y_el(to + at * y_step, type_bytes), value, opcode, type));
    }
  }
}

// A group for each entry: the first one for a place writes that place, with all later entries for it, in their order.
KERNEL(index_put, outer * count, 64, opcode, type)
TAKES(index_put, (opcode == OP_set) * (type < 14) + (type == TYPE_float32) + (type == TYPE_float16) + (type == TYPE_bfloat16) + (type < 9) * (type != TYPE_uint32) * (type != TYPE_uint64) * (type != TYPE_uint16))
ATOMIC(index_put, (type == TYPE_bool) + (type == TYPE_int8) + (type == TYPE_uint8) + (type == TYPE_int16) + (type == TYPE_uint16) + (type == TYPE_float16) + (type == TYPE_bfloat16) + (type == 9) + (type == 10))
var<workgroup> earlier: atomic<u32>;
var<workgroup> is_later: u32;
var<workgroup> places: array<i32, 64>;
// What one index adds to the place; LOST where it is out of range.
const LOST = -1073741824;
fn step_of(given: bool, at: vec2<u32>, size_: i32, stride_: i32) -> i32 {
  if (!given) { return 0; }
  var k = i32(at.x);
  if (k < 0) { k += size_; }
  if (k < 0 || k >= size_ || at.y != u32(i32(at.x) >> 31u)) { return LOST; }
  return k * stride_;
}
fn selected(n: i32) -> i32 {
  let a = step_of(true, index0_el(n, 8), size0, stride0);
  let b = step_of(index1_given, index1_el(n, 8), size1, stride1);
  let c = step_of(index2_given, index2_el(n, 8), size2, stride2);
  let d = step_of(index3_given, index3_el(n, 8), size3, stride3);
  if (min(min(a, b), min(c, d)) == LOST) { return -1; }
  return a + b + c + d;
}
MAIN {
  if (gid >= outer * count) { return; }
  let entry = gid % count;
  let to = selected(entry);
  if (to < 0 && tid == 0) { fail(INDEX_RANGE); }
  for (var n = tid; n < entry; n += THREADS) {
    if (selected(n) == to) { atomicStore(&earlier, 1u); }
  }
  workgroupBarrier();
  if (tid == 0) { is_later = max(atomicLoad(&earlier), select(0u, 1u, to < 0)); }
  if (workgroupUniformLoad(&is_later) != 0u) { return; }
  let begin = gid / count * y_outer + to;
  for (var base = entry; base < count; base += THREADS) {
    workgroupBarrier();
    places[tid] = -1;
    if (base + tid < count) { places[tid] = selected(base + tid); }
    workgroupBarrier();
    for (var j = 0; j < 64; j++) {
      if (places[j] != to) { continue; }
      let source_at = gid / count * source_outer + (base + j) * source_count;
      for (var k = tid; k < inner; k += THREADS) {
        y_put_el(begin + k, type_bytes, joined(y_el(begin + k, type_bytes), source_el(source_at + k * source_inner, type_bytes), opcode, type));
      }
    }
  }
}
