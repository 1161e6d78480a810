// Convolutions in which each channel has its own kernels, transposed ones, and sums of windows. The others: linear.wgsl.

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
