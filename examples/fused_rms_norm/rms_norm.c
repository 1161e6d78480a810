/* y = s / sqrt(mean(s²) + epsilon) * weight with s = x + residual, row by row, and its gradients: one walk over the
 * memory each, where separate operations take six. All arrays are dense float32.
 */
#include <math.h>
#include <stdint.h>

int add_rms_norm(float *y, const float *x, const float *residual, const float *weight, intptr_t rows, intptr_t columns,
                 float epsilon) {
    for (intptr_t r = 0; r < rows; r++) {
        const float *a = x + r * columns, *b = residual + r * columns;
        float *out = y + r * columns;
        float squares = 0;
        for (intptr_t c = 0; c < columns; c++) {
            float s = a[c] + b[c];
            out[c] = s;
            squares += s * s;
        }
        float scale = 1 / sqrtf(squares / (float)columns + epsilon);
        for (intptr_t c = 0; c < columns; c++) out[c] *= scale * weight[c];
    }
    return 0;
}

/* grad_sum is the gradient of x and of residual; grad_weight adds up over the rows and must be zero at first. */
int add_rms_norm_backward(float *grad_sum, float *grad_weight, const float *x, const float *residual,
                          const float *weight, const float *grad_y, intptr_t rows, intptr_t columns, float epsilon) {
    for (intptr_t r = 0; r < rows; r++) {
        const float *a = x + r * columns, *b = residual + r * columns, *g = grad_y + r * columns;
        float *out = grad_sum + r * columns;
        float squares = 0, along = 0;
        for (intptr_t c = 0; c < columns; c++) {
            float s = a[c] + b[c];
            squares += s * s;
            along += s * g[c] * weight[c];
        }
        float scale = 1 / sqrtf(squares / (float)columns + epsilon);
        float back = along * scale * scale * scale / (float)columns;
        for (intptr_t c = 0; c < columns; c++) {
            float s = a[c] + b[c];
            out[c] = g[c] * weight[c] * scale - s * back;
            grad_weight[c] += g[c] * s * scale;
        }
    }
    return 0;
}
