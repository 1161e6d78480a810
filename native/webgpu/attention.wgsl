// Rotary embedding, attention to what a cache holds, and attention of whole sequences with its gradient. Where positions and
// blocks of a cache are: kernels.h.

var<workgroup> of_threads: array<f32, 64>;
fn group_sum(x: f32, tid: i32) -> f32 {
  workgroupBarrier();
  of_threads[tid] = x;
  workgroupBarrier();
  var s = 0.0;
  for (var i = 0; i < 64; i++) { s += of_threads[i]; }
  return s;
}
fn group_max(x: f32, tid: i32) -> f32 {
  workgroupBarrier();
  of_threads[tid] = x;
  workgroupBarrier();
  var m = of_threads[0];
  for (var i = 1; i < 64; i++) { m = max(m, of_threads[i]); }
  return m;
}

KERNEL(rope_f32, MIN(PARTS(texts * tokens * heads * (head_dim - rotated / 2), 256), 16384), 256)
TAKES(rope_f32, rotated % 2 == 0)
MAIN {
  let each = head_dim - rotated / 2; // pairs, then what is copied
  FOR_EACH(i, texts * tokens * heads * each) {
    let e = i % each;
    let h = i / each % heads;
    let row = i / each / heads;
    let source = row * x_stride + h * head_dim;
    let to = row * y_stride + h * head_dim;
    if (e >= rotated / 2) {
      y_put(to + e + rotated / 2, x_f(source + e + rotated / 2));
      continue;
    }
    var at = row % tokens;
    if (position_given) { at += position_i(row / tokens); }
    if (at < 0 || at >= positions) { fail(POSITION_RANGE); continue; }
    let first = select(e, 2 * e, interleaved == 1);
    let second = select(e + rotated / 2, 2 * e + 1, interleaved == 1);
    let cosine = table_f((at * (rotated / 2) + e) * 2);
    let sine = table_f((at * (rotated / 2) + e) * 2 + 1);
    let a = x_f(source + first);
    let b = x_f(source + second);
    y_put(to + first, a * cosine - b * sine);
    y_put(to + second, a * sine + b * cosine);
  }
}

KERNEL(cache_write, MIN(PARTS(texts * tokens * heads * head_dim, 256), 16384), 256, type)
TAKES(cache_write, (type == TYPE_float32) + (type == TYPE_float16))
ATOMIC(cache_write, type == TYPE_float16)
MAIN {
  FOR_EACH(i, texts * tokens * heads * head_dim) {
    let d = i % head_dim;
    let h = i / head_dim % heads;
    let row = i / head_dim / heads;
    var text = row / tokens;
    var at = position_i(text) + row % tokens;
    if (at < 0 || at >= capacity * max(parts, 1)) { fail(POSITION_RANGE); continue; }
    if (table_given) {
      text = table_i(text * parts + at / capacity);
      at %= capacity;
      if (text < 0 || text >= blocks) { fail(INDEX_RANGE); continue; }
    }
    let value = x_f(row * x_stride + h * head_dim + d);
    cache_put_el(((text * heads + h) * capacity + at) * head_dim + d, type_bytes, element_of(value, type));
  }
}

KERNEL(cached_attention, texts * tokens * heads, 64, type)
TAKES(cached_attention, ((type == TYPE_float32) + (type == TYPE_float16)) * (head_dim <= 256))
var<workgroup> weights: array<f32, 64>;
var<workgroup> query: array<f32, 256>;
var<workgroup> parts_: array<f32, 64>;
var<workgroup> bounds: vec2<i32>; // the keys that are seen: the first, and where they end
fn load_k(i: i32) -> f32 { return float_of(k_el(i, type_bytes), type); }
fn load_v(i: i32) -> f32 { return float_of(v_el(i, type_bytes), type); }
// Where the row of a cached position begins.
fn row_of(text: i32, kv: i32, at: i32) -> i32 {
  if (table_given) {
    let block = clamp(table_i(text * parts + at / capacity), 0, blocks - 1);
    return ((block * kv_heads + kv) * capacity + at % capacity) * head_dim;
  }
  return ((text * kv_heads + kv) * capacity + at) * head_dim;
}
MAIN {
  if (gid >= texts * tokens * heads) { return; }
  let h = gid % heads;
  let row = gid / heads;
  let text = row / tokens;
  let kv = h / (heads / kv_heads);
  let begin = position_i(text);
  let wrong = begin < 0 || begin + tokens > capacity * max(parts, 1);
  if (wrong && tid == 0) { fail(POSITION_RANGE); }
  let last = select(begin + select(tokens, row % tokens + 1, causal == 1) - 1, -1, wrong);
  if (tid == 0) { bounds = vec2<i32>(select(0, max(0, last + 1 - window), window > 0), last + 1); }
  for (var d = tid; d < head_dim; d += THREADS) { query[d] = q_f(row * q_stride + h * head_dim + d); }
  var acc = vec4<f32>();
  var m = LOWEST;
  var total_weight = 0.0;
  if (sinks_given) { m = sinks_f(h); total_weight = 1.0; }
  let range = workgroupUniformLoad(&bounds); // the compiler does not know that all threads read the same position
  let stop = range.y;
  for (var base = range.x; base < stop; base += THREADS) {
    let key = base + tid;
    var score = LOWEST;
    if (key < stop) {
      let at = row_of(text, kv, key);
      var dot = 0.0;
      for (var d = 0; d < head_dim; d++) { dot += query[d] * load_k(at + d); }
      score = dot * scale;
      if (softcap != 0.0) { score = softcap * tanh_of(score / softcap); }
      if (slopes_given) { score += slopes_f(h) * f32(key - last); }
    }
    parts_[tid] = score;
    workgroupBarrier();
    for (var s = 32; s > 0; s /= 2) {
      if (tid < s) { parts_[tid] = max(parts_[tid], parts_[tid + s]); }
      workgroupBarrier();
    }
    let before = m;
    m = max(m, parts_[0]);
    let kept = exp(before - m);
    let mine = select(0.0, exp(score - m), key < stop);
    weights[tid] = mine;
    workgroupBarrier();
    acc *= kept;
    total_weight *= kept;
    let many_keys = min(THREADS, stop - base);
    for (var j = 0; j < many_keys; j++) {
      let w = weights[j];
      total_weight += w;
      let at = row_of(text, kv, base + j);
      for (var e = 0; e < 4; e++) {
        let d = tid + e * THREADS;
        if (d < head_dim) { acc[e] += w * load_v(at + d); }
      }
    }
    workgroupBarrier();
  }
  for (var e = 0; e < 4; e++) {
    let d = tid + e * THREADS;
    if (d < head_dim) { y_put(row * y_stride + h * head_dim + d, select(0.0, acc[e] / total_weight, total_weight > 0.0)); }
  }
}

// A group has 16 rows of a head, and takes 16 keys at a time; a thread has a row's scores of four keys, and a quarter of its
// sums. Scores of keys that a row does not see are -infinity.
KERNEL(masked_attention, batch * heads * PARTS(tokens, 16), 64, type, mask_type, value_dim)
TAKES(masked_attention, ((type == TYPE_float32) + (type == TYPE_float16) + (type == TYPE_bfloat16)) * (value_dim <= 256))
ATOMIC(masked_attention, type != TYPE_float32)
const WIDE = 17; // of a row of 16: threads side by side read different banks
const COLUMNS = (value_dim + 15) / 16;
var<workgroup> queries: array<f32, 272>;
var<workgroup> others: array<f32, 272>; // keys, then values
var<workgroup> scores: array<f32, 272>;
fn load_q(i: i32) -> f32 { return float_of(q_el(i, type_bytes), type); }
fn load_k(i: i32) -> f32 { return float_of(k_el(i, type_bytes), type); }
fn load_v(i: i32) -> f32 { return float_of(v_el(i, type_bytes), type); }
// What the gradient of a score loses by the cap.
fn cap_slope(dot: f32) -> f32 {
  if (softcap == 0.0) { return 1.0; }
  let t = tanh_of(dot * scale / softcap);
  return 1.0 - t * t;
}
fn score_of(dot: f32, b: i32, h: i32, t: i32, key: i32) -> f32 {
  if (key >= keys || key < t - before || key > t + after) { return -infinity(); }
  var score = dot * scale;
  if (softcap != 0.0) { score = softcap * tanh_of(score / softcap); }
  if (mask_given) {
    let at = b * mask_batch + h * mask_head + t * mask_token + key * mask_key;
    if (mask_type == TYPE_bool) {
      if (mask_b(at) == 0u) { return -infinity(); }
    } else {
      score += float_of(mask_el(at, mask_type_bytes), mask_type);
    }
  }
  return score;
}
MAIN {
  let across = (tokens + 15) / 16;
  if (gid >= batch * heads * across) { return; }
  let t0 = gid % across * 16;
  let h = gid / across % heads;
  let b = gid / across / heads;
  let row = tid / 4;
  let lane = tid % 4;
  let t = t0 + row;
  let q_at = b * q_batch + h * head_dim;
  let k_at = b * k_batch + h / (heads / kv_heads) * head_dim;
  let v_at = b * v_batch + h / (heads / kv_heads) * value_dim;
  let stop = min(keys, min(t0 + 15, tokens - 1) + after + 1);
  var sums = array<vec4<f32>, COLUMNS>();
  var m = LOWEST;
  var total_weight = 0.0;
  for (var s0 = max(0, t0 - before); s0 < stop; s0 += 16) {
    var dots = vec4<f32>();
    for (var d0 = 0; d0 < head_dim; d0 += 16) {
      workgroupBarrier();
      for (var e = tid; e < 256; e += THREADS) {
        let r = e / 16;
        let d = d0 + e % 16;
        var u = 0.0;
        var w = 0.0;
        if (d < head_dim && t0 + r < tokens) { u = load_q(q_at + (t0 + r) * q_token + d); }
        if (d < head_dim && s0 + r < keys) { w = load_k(k_at + (s0 + r) * k_token + d); }
        queries[r * WIDE + e % 16] = u;
        others[r * WIDE + e % 16] = w;
      }
      workgroupBarrier();
      for (var d = 0; d < 16; d++) {
        dots += queries[row * WIDE + d] * vec4<f32>(others[lane * WIDE + d], others[(lane + 4) * WIDE + d], others[(lane + 8) * WIDE + d], others[(lane + 12) * WIDE + d]);
      }
    }
    for (var e = 0; e < 4; e++) { scores[row * WIDE + lane + 4 * e] = score_of(dots[e], b, h, t, s0 + lane + 4 * e); }
    workgroupBarrier();
    var most = m;
    for (var j = 0; j < 16; j++) {
      let s = scores[row * WIDE + j];
      if (!is_inf(s)) { most = max(most, s); }
    }
    let kept = exp(m - most);
    m = most;
    total_weight *= kept;
    for (var j = 0; j < 16; j++) {
      let s = scores[row * WIDE + j];
      if (!is_inf(s)) { total_weight += exp(s - m); }
    }
    workgroupBarrier(); // all have read the scores, which become weights
    for (var e = 0; e < 4; e++) {
      let s = scores[row * WIDE + lane + 4 * e];
      scores[row * WIDE + lane + 4 * e] = select(exp(s - m), 0.0, is_inf(s));
    }
    for (var c = 0; c < COLUMNS; c++) {
      workgroupBarrier();
      for (var e = tid; e < 256; e += THREADS) {
        let key = s0 + e / 16;
        let d = c * 16 + e % 16;
        var w = 0.0;
        if (key < keys && d < value_dim) { w = load_v(v_at + key * v_token + d); }
        others[e / 16 * WIDE + e % 16] = w;
      }
      workgroupBarrier();
      var sum = sums[c] * kept;
      for (var j = 0; j < 16; j++) {
        let at = j * WIDE + 4 * lane;
        sum += scores[row * WIDE + j] * vec4<f32>(others[at], others[at + 1], others[at + 2], others[at + 3]);
      }
      sums[c] = sum;
    }
  }
  if (t >= tokens) { return; }
  for (var c = 0; c < COLUMNS; c++) {
    for (var e = 0; e < 4; e++) {
      let d = c * 16 + 4 * lane + e;
      let value = select(0.0, sums[c][e] / total_weight, total_weight > 0.0);
      if (d < value_dim) { y_put_el(((b * tokens + t) * heads + h) * value_dim + d, type_bytes, element_of(value, type)); }
    }
  }
}

// Of each row of queries: grad_q, the logarithm of its sum of exponentials, and the sum of its weights times their gradients.
STEP(masked_attention_backward, batch * heads * tokens, 64, type, mask_type, value_dim)
ATOMIC(masked_attention_backward, type != TYPE_float32)
USES(masked_attention_backward, masked_attention)
var<workgroup> query: array<f32, 256>;
var<workgroup> grad: array<f32, 256>;
var<workgroup> of_keys: array<f32, 64>;
// The product of the query with a key, and of the gradient with its value.
fn products(k_at: i32, v_at: i32) -> vec2<f32> {
  var found = vec2<f32>();
  for (var d = 0; d < head_dim; d++) { found.x += query[d] * load_k(k_at + d); }
  for (var d = 0; d < value_dim; d++) { found.y += grad[d] * load_v(v_at + d); }
  return found;
}
MAIN {
  if (gid >= batch * heads * tokens) { return; }
  let t = gid % tokens;
  let h = gid / tokens % heads;
  let b = gid / tokens / heads;
  let kv = h / (heads / kv_heads);
  let k_at = b * k_batch + kv * head_dim;
  let v_at = b * v_batch + kv * value_dim;
  let row = (b * tokens + t) * heads + h;
  for (var d = tid; d < head_dim; d += THREADS) { query[d] = load_q(b * q_batch + t * q_token + h * head_dim + d); }
  for (var d = tid; d < value_dim; d += THREADS) { grad[d] = float_of(grad_y_el(row * value_dim + d, type_bytes), type); }
  workgroupBarrier();
  let first = max(0, t - before);
  let stop = min(keys, t + after + 1);
  var m = LOWEST;
  var sum = 0.0;
  var slopes = 0.0;
  for (var key = first + tid; key < stop; key += THREADS) {
    let found = products(k_at + key * k_token, v_at + key * v_token);
    let score = score_of(found.x, b, h, t, key);
    if (is_inf(score)) { continue; }
    let most = max(m, score);
    let kept = exp(m - most);
    let weight = exp(score - most);
    sum = sum * kept + weight;
    slopes = slopes * kept + weight * found.y;
    m = most;
  }
  let most = group_max(m, tid);
  let kept = exp(m - most);
  sum = group_sum(sum * kept, tid);
  slopes = group_sum(slopes * kept, tid);
  let blind = sum == 0.0;
  let whole = select(most + log(max(sum, 1e-37)), infinity(), blind);
  let mean = select(slopes / sum, 0.0, blind);
  if (tid == 0) {
    between_put(2 * gid, whole);
    between_put(2 * gid + 1, mean);
  }
  var sums = vec4<f32>();
  for (var base = first; base < stop; base += THREADS) {
    let key = base + tid;
    var slope = 0.0;
    if (key < stop) {
      let found = products(k_at + key * k_token, v_at + key * v_token);
      let score = score_of(found.x, b, h, t, key);
      if (!is_inf(score)) { slope = exp(score - whole) * (found.y - mean) * scale * cap_slope(found.x); }
    }
    workgroupBarrier();
    of_keys[tid] = slope;
    workgroupBarrier();
    for (var j = 0; j < min(THREADS, stop - base); j++) {
      for (var e = 0; e < 4; e++) {
        let d = tid + e * THREADS;
        if (d < head_dim) { sums[e] += of_keys[j] * load_k(k_at + (base + j) * k_token + d); }
      }
    }
  }
  for (var e = 0; e < 4; e++) {
    let d = tid + e * THREADS;
    if (d < head_dim) { grad_q_put_el(row * head_dim + d, type_bytes, element_of(sums[e], type)); }
  }
}

// A group for each key, which goes along the rows that see it.
KERNEL(masked_attention_backward, batch * kv_heads * keys, 64, type, mask_type, value_dim)
TAKES(masked_attention_backward, ((type == TYPE_float32) + (type == TYPE_float16) + (type == TYPE_bfloat16)) * (head_dim <= 256) * (value_dim <= 256))
ATOMIC(masked_attention_backward, type != TYPE_float32)
BETWEEN(masked_attention_backward, 8 * batch * heads * tokens)
USES(masked_attention_backward, masked_attention)
var<workgroup> key_row: array<f32, 256>;
var<workgroup> value_row: array<f32, 256>;
var<workgroup> weights_of: array<f32, 64>;
var<workgroup> slopes_of: array<f32, 64>;
MAIN {
  if (gid >= batch * kv_heads * keys) { return; }
  let key = gid % keys;
  let kv = gid / keys % kv_heads;
  let b = gid / keys / kv_heads;
  for (var d = tid; d < head_dim; d += THREADS) { key_row[d] = load_k(b * k_batch + key * k_token + kv * head_dim + d); }
  for (var d = tid; d < value_dim; d += THREADS) { value_row[d] = load_v(b * v_batch + key * v_token + kv * value_dim + d); }
  workgroupBarrier();
  let first = max(0, key - after);
  let stop = min(tokens, key + before + 1);
  var of_key = vec4<f32>();
  var of_value = vec4<f32>();
  for (var h = kv * (heads / kv_heads); h < (kv + 1) * (heads / kv_heads); h++) {
    let q_at = b * q_batch + h * head_dim;
    for (var base = first; base < stop; base += THREADS) {
      let t = base + tid;
      var weight = 0.0;
      var slope = 0.0;
      if (t < stop) {
        var dot = 0.0;
        var product = 0.0;
        for (var d = 0; d < head_dim; d++) { dot += load_q(q_at + t * q_token + d) * key_row[d]; }
        for (var d = 0; d < value_dim; d++) {
          product += float_of(grad_y_el(((b * tokens + t) * heads + h) * value_dim + d, type_bytes), type) * value_row[d];
        }
        let score = score_of(dot, b, h, t, key);
        let row = (b * heads + h) * tokens + t;
        if (!is_inf(score)) {
          weight = exp(score - between_f(2 * row));
          slope = weight * (product - between_f(2 * row + 1)) * scale * cap_slope(dot);
        }
      }
      workgroupBarrier();
      weights_of[tid] = weight;
      slopes_of[tid] = slope;
      workgroupBarrier();
      for (var j = 0; j < min(THREADS, stop - base); j++) {
        let at = q_at + (base + j) * q_token;
        let grad_at = ((b * tokens + base + j) * heads + h) * value_dim;
        for (var e = 0; e < 4; e++) {
          let d = tid + e * THREADS;
          if (d < head_dim) { of_key[e] += slopes_of[j] * load_q(at + d); }
          if (d < value_dim) { of_value[e] += weights_of[j] * float_of(grad_y_el(grad_at + d, type_bytes), type); }
        }
      }
    }
  }
  let to = (b * keys + key) * kv_heads + kv;
  for (var e = 0; e < 4; e++) {
    let d = tid + e * THREADS;
    if (d < head_dim) { grad_kv_put_el(to * head_dim + d, type_bytes, element_of(of_key[e], type)); }
    if (d < value_dim) {
      grad_kv_put_el(batch * keys * kv_heads * head_dim + to * value_dim + d, type_bytes, element_of(of_value[e], type));
    }
  }
}
