// Training steps of TensorFlow.js in WebAssembly, one thread, on the shapes of bench/training.py: forward, cross entropy,
// backward, Adam. Methods: load(name), sample(seconds): microseconds of a step.
const tf = globalThis.tf;
tf.wasm.setWasmPaths(new URL("../peers/@tensorflow/tfjs-backend-wasm/dist/", import.meta.url).href);
tf.wasm.setThreadsCount(1);
await tf.setBackend("wasm");
await tf.ready();

/** A convolution of 3x3, padding "same". This backend has no kernel for the gradient of the filter: it is a convolution
 * of the images by channel with the gradient as its filter. */
const conv = tf.customGrad((x, filter, save) => {
  save([x, filter]);
  return {
    value: tf.conv2d(x, filter, 1, "same"),
    gradFunc: (dy, [x, filter]) => [
      tf.conv2dTranspose(dy, filter, x.shape, 1, "same"),
      tf.transpose(tf.conv2d(tf.transpose(x, [3, 1, 2, 0]), tf.transpose(dy, [1, 2, 0, 3]), 1, [[0, 0], [1, 1], [1, 1], [0, 0]]), [1, 2, 0, 3]),
    ],
  };
});

const weight = (...shape) => tf.variable(tf.randomNormal(shape, 0, 0.1));

function mlp() {
  const [w1, b1, w2, b2] = [weight(64, 64), weight(64), weight(64, 10), weight(10)];
  const forward = (x) => tf.add(tf.matMul(tf.relu(tf.add(tf.matMul(x, w1), b1)), w2), b2);
  return { variables: [w1, b1, w2, b2], forward, shape: [32, 64] };
}

function cnn() {
  const variables = [weight(3, 3, 1, 16), weight(16), weight(3, 3, 16, 32), weight(32), weight(512, 10), weight(10)];
  const block = (x, w, b) => tf.maxPool(tf.relu(tf.add(conv(x, w), b)), 2, 2, "valid");
  const [w1, b1, w2, b2, w3, b3] = variables;
  const forward = (x) => tf.add(tf.matMul(tf.reshape(block(block(x, w1, b1), w2, b2), [-1, 512]), w3), b3);
  return { variables, forward, shape: [64, 16, 16, 1] };
}

const models = { "MLP 64-64-10": mlp, "small CNN": cnn };
let step;

function load({ name }) {
  const { variables, forward, shape } = models[name]();
  const x = tf.randomNormal(shape);
  const labels = tf.cast(tf.oneHot(Array.from({ length: shape[0] }, (_, i) => i % 10), 10), "float32");
  const optimizer = tf.train.adam(1e-3);
  step = () => optimizer.minimize(() => tf.losses.softmaxCrossEntropy(labels, forward(x)), false, variables);
  for (let i = 0; i < 20; i++) step();
  return { threads: tf.wasm.getThreadsCount(), tfjs: tf.version_core };
}

function sample({ seconds }) {
  const start = performance.now();
  let count = 0;
  while (performance.now() - start < seconds * 1000) {
    step();
    count++;
  }
  return ((performance.now() - start) / count) * 1000;
}

const methods = { load, sample };
window.call = async (method, params) => methods[method](params);
