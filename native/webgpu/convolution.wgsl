// Convolutions in which each channel has its own kernels, with their gradients, transposed ones, and sizes of pictures. The
// others: linear.wgsl.

KERNEL(depthwise_f32, MIN(PARTS(batch * channels * multiplier * out_height * out_width, 256), 16384), 256)
MAIN {
  FOR_EACH(i, batch * channels * multiplier * out_height * out_width) {
    let c = i % out_width * stride_x - left;
    let r = i / out_width % out_height * stride_y - top;
    let plane = i / (out_width * out_height);
    let output = plane % (channels * multiplier);
    let at = plane / multiplier * height;
    var sum = 0.0;
    if (bias_given) { sum = bias_f(output); }
    for (var p = 0; p < kernel_height; p++) {
      let y_ = r + p * dilation_y;
      if (y_ < 0 || y_ >= height) { continue; }
      for (var q = 0; q < kernel_width; q++) {
        let x_ = c + q * dilation_x;
        if (x_ >= 0 && x_ < width) { sum += weight_f((output * kernel_height + p) * kernel_width + q) * x_f((at + y_) * width + x_); }
      }
    }
    y_put(i, sum);
  }
}

KERNEL(conv_transpose_f32, MIN(PARTS(batch * groups * outputs * out_height * out_width, 256), 16384), 256)
MAIN {
  FOR_EACH(i, batch * groups * outputs * out_height * out_width) {
    let c = i % out_width + left;
    let r = i / out_width % out_height + top;
    let channel = i / (out_width * out_height) % (groups * outputs);
    let entry = i / (out_width * out_height) / (groups * outputs);
    let group = channel / outputs;
    var sum = 0.0;
    if (bias_given) { sum = bias_f(channel); }
    for (var p = 0; p < kernel_height; p++) {
      let down = r - p * dilation_y;
      if (down < 0 || down % stride_y != 0 || down / stride_y >= height) { continue; }
      for (var q = 0; q < kernel_width; q++) {
        let along = c - q * dilation_x;
        if (along < 0 || along % stride_x != 0 || along / stride_x >= width) { continue; }
        for (var n = 0; n < inputs; n++) {
          let w = weight_f((((group * inputs + n) * outputs + channel % outputs) * kernel_height + p) * kernel_width + q);
          sum += w * x_f((((entry * groups + group) * inputs + n) * height + down / stride_y) * width + along / stride_x);
        }
      }
    }
    y_put(i, sum);
  }
}

KERNEL(depthwise_input_backward_f32, MIN(PARTS(batch * channels * height * width, 256), 16384), 256)
MAIN {
  FOR_EACH(i, batch * channels * height * width) {
    let c = i % width + left;
    let r = i / width % height + top;
    let plane = i / (width * height);
    var sum = 0.0;
    for (var p = 0; p < kernel_height; p++) {
      let down = r - p * dilation_y;
      if (down < 0 || down % stride_y != 0 || down / stride_y >= out_height) { continue; }
      for (var q = 0; q < kernel_width; q++) {
        let along = c - q * dilation_x;
        if (along < 0 || along % stride_x != 0 || along / stride_x >= out_width) { continue; }
        for (var n = 0; n < multiplier; n++) {
          let w = weight_f(((plane % channels * multiplier + n) * kernel_height + p) * kernel_width + q);
          sum += w * grad_y_f(((plane * multiplier + n) * out_height + down / stride_y) * out_width + along / stride_x);
        }
      }
    }
    grad_x_put(i, sum);
  }
}

// A group for each weight.
KERNEL(depthwise_weight_backward_f32, channels * multiplier * kernel_height * kernel_width, 64)
var<workgroup> sums: array<f32, 64>;
MAIN {
  if (gid >= channels * multiplier * kernel_height * kernel_width) { return; }
  let q = gid % kernel_width * dilation_x - left;
  let p = gid / kernel_width % kernel_height * dilation_y - top;
  let output = gid / (kernel_width * kernel_height);
  var sum = 0.0;
  for (var i = tid; i < batch * out_height * out_width; i += THREADS) {
    let c = i % out_width * stride_x + q;
    let r = i / out_width % out_height * stride_y + p;
    let entry = i / (out_width * out_height);
    if (c < 0 || c >= width || r < 0 || r >= height) { continue; }
    let g = grad_y_f((entry * channels * multiplier + output) * out_height * out_width + i % (out_width * out_height));
    sum += g * x_f(((entry * channels + output / multiplier) * height + r) * width + c);
  }
  sums[tid] = sum;
  workgroupBarrier();
  for (var s = 32; s > 0; s /= 2) {
    if (tid < s) { sums[tid] += sums[tid + s]; }
    workgroupBarrier();
  }
  if (tid == 0) { grad_weight_put(gid, sums[0]); }
}

KERNEL(resample, MIN(PARTS(outer * out * inner, 256), 16384), 256, type)
TAKES(resample, type == TYPE_float32)
MAIN {
  FOR_EACH(i, outer * out * inner) {
    let o = i / inner % out;
    let begin = i / inner / out * size * inner + i % inner;
    var sum = 0.0;
    for (var k = starts_i(o); k < starts_i(o + 1); k++) {
      let at = places_i(k);
      if (at < 0 || at >= size) { fail(INDEX_RANGE); continue; }
      sum += weights_f(k) * x_f(begin + at * inner);
    }
    y_put(i, sum);
  }
}
