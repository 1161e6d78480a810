// The next token: repetition penalty, temperature, top-k, top-p, min-p and typical sampling, as native/cuda/sample.cu. Tokens
// have an order: by falling values, then by id. One group finds bit by bit up to which of them a setting keeps, and at which
// the draw ends, and never sorts.

var<workgroup> sums: array<f32, 256>;
var<workgroup> sixteenths: array<f32, 16>;
var<workgroup> lowest: array<i32, 256>;

fn sum_all(x: f32, tid: i32) -> f32 {
  workgroupBarrier();
  sums[tid] = x;
  workgroupBarrier();
  if (tid < 16) {
    var s = 0.0;
    for (var i = 0; i < 16; i++) { s += sums[16 * tid + i]; }
    sixteenths[tid] = s;
  }
  workgroupBarrier();
  var s = 0.0;
  for (var i = 0; i < 16; i++) { s += sixteenths[i]; }
  return s;
}

// Larger for larger values; the same for both zeros.
fn key_of(x: f32) -> u32 {
  let b = select(bitcast<u32>(x), 0u, x == 0.0);
  return select(b | 0x80000000u, ~b, (b >> 31u) == 1u);
}

KERNEL(sample_f32, MIN(vocabulary, 1), 256)
var<private> last_key: u32; // of the last token that is kept
var<private> last_id: i32;
var<private> smallest: f32; // weight that is kept
var<private> window: vec2<f32>; // weights that typical sampling keeps: from, to
var<private> largest: f32;
fn changes() -> bool { return history_given && history_count > 0; }
fn logit(i: i32) -> f32 { return select(logits_f(i), candidates_f(i), changes()); }
// What a token counts, of the kept ones: 1, or its weight.
fn amount(i: i32, v: f32, key: u32, counting: bool) -> f32 {
  if (key < last_key || (key == last_key && i > last_id)) { return 0.0; }
  let w = select(exp((v - largest) / temperature), 1.0, v == largest);
  return select(select(w, 0.0, w < smallest || w < window.x || w > window.y), 1.0, counting);
}
// The sum of the tokens that come before the one of this key and id.
fn sum_before(key: u32, id: i32, counting: bool, tid: i32) -> f32 {
  var s = 0.0;
  for (var i = tid; i < vocabulary; i += THREADS) {
    let v = logit(i);
    let own_key = key_of(v);
    if (own_key > key || (own_key == key && i < id)) { s += amount(i, v, own_key, counting); }
  }
  return sum_all(s, tid);
}
// Keeps the tokens whose surprise -log p is closest to the entropy, as many as have the share `part`: a window of weights.
fn keep_typical(part: f32, tid: i32) {
  var s = 0.0;
  for (var i = tid; i < vocabulary; i += THREADS) {
    let v = logit(i);
    let w = amount(i, v, key_of(v), false);
    if (w > 0.0) { s += w * log(w); }
  }
  let mass = sum_before(0u, vocabulary, false, tid);
  let center = sum_all(s, tid) / mass;
  var range = vec2<f32>(0.0, 256.0);
  var kept = window;
  for (var step = 0; step < 48; step++) {
    let middle = range.x + (range.y - range.x) * 0.5;
    window = vec2<f32>(exp(center - middle), exp(min(center + middle, 80.0)));
    if (sum_before(0u, vocabulary, false, tid) >= part * mass) {
      range.y = middle;
      kept = window;
    } else {
      range.x = middle;
    }
    window = vec2<f32>(0.0, -LOWEST);
  }
  window = kept;
}
struct Token { key: u32, id: i32 }
// The token with which the sum first exceeds the goal.
fn find(goal: f32, counting: bool, tid: i32) -> Token {
  var key = 0u;
  for (var bit = 31; bit >= 0; bit--) {
    let tried = key | (1u << u32(bit));
    if (sum_before(tried, vocabulary, counting, tid) > goal) { key = tried; }
  }
  var id = 0;
  for (var bit = 1 << 20; bit > 0; bit /= 2) {
    if (sum_before(key, id + bit, counting, tid) <= goal) { id += bit; }
  }
  return Token(key, id);
}
MAIN {
  var bad = !(penalty > 0.0) || is_nan(temperature) || (temperature > 0.0 && !(uniform_f(0) >= 0.0 && uniform_f(0) < 1.0));
  var wrong = false;
  if (changes()) { // a copy that changes
    for (var i = tid; i < vocabulary; i += THREADS) { candidates_put(i, logits_f(i)); }
    storageBarrier();
    for (var i = tid; i < history_count; i += THREADS) {
      let id = history_i(i);
      if (id < 0 || id >= vocabulary) { wrong = true; continue; }
      let v = logits_f(id);
      candidates_put(id, select(v / penalty, v * penalty, v < 0.0));
    }
    storageBarrier();
  }
  var most = logit(0);
  var at = 0;
  for (var i = tid; i < vocabulary; i += THREADS) {
    let v = logit(i);
    if (above(v, most) || (v == most && i < at)) { most = v; at = i; }
  }
  sums[tid] = most;
  lowest[tid] = at;
  workgroupBarrier();
  for (var s = 128; s > 0; s /= 2) {
    if (tid < s) {
      let v = sums[tid + s];
      if (above(v, sums[tid]) || (v == sums[tid] && lowest[tid + s] < lowest[tid])) { sums[tid] = v; lowest[tid] = lowest[tid + s]; }
    }
    workgroupBarrier();
  }
  largest = sums[0];
  let first = lowest[0];
  bad = bad || is_nan(largest) || (is_inf(largest) && largest < 0.0);
  if (wrong) { fail(INDEX_RANGE); }
  if (bad && tid == 0) { fail(BAD_ARGUMENT); }
  last_id = vocabulary;
  window = vec2<f32>(0.0, -LOWEST);
  var drawn = Token(0u, first);
  if (temperature > 0.0) {
    if (top_k > 0 && top_k < vocabulary) {
      let kept = find(f32(top_k) - 1.0, true, tid);
      last_key = kept.key;
      last_id = kept.id;
    }
    if (top_p > 0.0 && top_p < 1.0) {
      let kept = find(sum_before(0u, vocabulary, false, tid) * top_p, false, tid);
      last_key = kept.key;
      last_id = kept.id;
    }
    smallest = min(min_p, 1.0);
    if (typical > 0 && typical < (1 << 24)) { keep_typical(f32(typical) / f32(1 << 24), tid); }
    let mass = sum_before(0u, vocabulary, false, tid);
    drawn = find(mass * uniform_f(0), false, tid);
    if (drawn.id >= vocabulary) { drawn.id = first; }
  }
  if (tid == 0 && !bad) { token_put_u(0, u32(drawn.id)); }
}
