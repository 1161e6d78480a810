/* Connectionist temporal classification (Graves et al. 2006) with its gradient, by the forward-backward algorithm.
 *
 * A target of S labels has 2 S + 1 states: its labels with blanks between and around them. Sums of probabilities are
 * kept as logarithms relative to the largest at their time, which itself is summed up in double: so f32 is exact enough
 * for recordings of any length.
 */
#include "vmath.h"

#define NEVER (-1e30f) /* stands for log(0): adding to it changes nothing and gives no NaN */

enum { AROUND = 16 }; /* floats that are NEVER on both sides of a row of states */

typedef struct paths {
    const float *log_probs; /* of this sample at time 0 */
    const int32_t *labels;
    int64_t step, times, states, width, blank; /* step: between two times; width: states, rounded up */
    float *score, *skip, *skip_back, *beta, *next, *alpha;
} paths;

INLINE void fill(float *row, int64_t count, float value)
{
    for (int64_t i = 0; i < count; i++)
        row[i] = value;
}

INLINE int64_t room_of(int64_t width) { return width + 2 * AROUND; }

/* Places the rows in scratch, and finds where a path may skip the blank: between two different labels. */
static void prepare(paths *p, float *scratch, int64_t rows)
{
    const int64_t room = room_of(p->width);
    float *row = scratch + AROUND;
    fill(row - AROUND, (rows + 5) * room, NEVER);
    float **const all[] = {&p->score, &p->skip, &p->skip_back, &p->beta, &p->next};
    for (int i = 0; i < 5; i++, row += room)
        *all[i] = row;
    p->alpha = row;
    for (int64_t s = 3; s < p->states; s += 2)
        if (p->labels[s >> 1] != p->labels[(s >> 1) - 1])
            p->skip[s] = p->skip_back[s - 2] = 0;
}

/* The log-probabilities of all states at a time. Returns whether one is NaN. */
static int gather(const paths *p, int64_t time)
{
    const float *row = p->log_probs + time * p->step;
    int broken = 0;
    for (int64_t s = 0; s < p->states; s++) {
        const float x = row[s & 1 ? p->labels[s >> 1] : p->blank];
        broken |= x != x;
        p->score[s] = x > NEVER ? x : NEVER;
    }
    return broken;
}

/* Subtracts the largest element from a row and returns it. */
static double level(float *row, int64_t width)
{
    vfloat largest = vload(row);
    for (int64_t s = LANES; s < width; s += LANES)
        largest = vmax(largest, vload(row + s));
    const float top = vlargest(largest);
    if (!(top > NEVER / 2))
        return 0;
    for (int64_t s = 0; s < width; s += LANES)
        vstore(row + s, vload(row + s) - top);
    return top;
}

/* The states at the next time, from the same state and one or two states before (or after: by = -1 or 1). */
static double advance(const paths *p, float *to, const float *from, const float *skip, int64_t by)
{
    for (int64_t s = 0; s < p->width; s += LANES) {
        const vfloat stay = vload(from + s), one = vload(from + s + by);
        const vfloat two = vload(from + s + 2 * by) + vload(skip + s), top = vmax(vmax(stay, one), two);
        const vfloat sum = vexp_negative(stay - top) + vexp_negative(one - top) + vexp_negative(two - top); /* 1 .. 3 */
        vstore(to + s, vmax(vload(p->score + s) + top + vlog(sum), vsplat(NEVER)));
    }
    return level(to, p->width);
}

/* -log of the probability of all paths; alpha of all times if `keep`. */
static float forward(const paths *p, int keep)
{
    const int64_t room = room_of(p->width), last = p->states - 1;
    int broken = 0;
    double under = 0; /* the offset of alpha */
    float *row = p->alpha;
    for (int64_t t = 0; t < p->times; t++) {
        float *before = row;
        row = p->alpha + (keep ? t : t & 1) * room;
        broken |= gather(p, t);
        if (t == 0) {
            for (int64_t s = 0; s <= last && s < 2; s++)
                row[s] = p->score[s];
            under = level(row, p->width);
        } else
            under += advance(p, row, before, p->skip, -1);
    }
    if (broken)
        return __builtin_nanf("");
    const float one = row[last], two = row[last - 1], top = one > two ? one : two;
    if (!(top > NEVER / 2))
        return INFINITE;
    return (float)-(under + top + log_scalar(exp_scalar(one - top) + exp_scalar(two - top)));
}

/* Subtracts from grad the posterior probability of each class at each time. */
static void backward(paths *p, float *grad)
{
    const int64_t room = room_of(p->width), last = p->states - 1;
    for (int64_t t = p->times - 1; t >= 0; t--) {
        gather(p, t);
        float *row = p->next, *share = p->alpha + t * room;
        if (t == p->times - 1)
            for (int64_t s = last; s >= 0 && s >= last - 1; s--)
                row[s] = p->score[s];
        else
            advance(p, row, p->beta, p->skip_back, 1);
        p->next = p->beta;
        p->beta = row;
        for (int64_t s = 0; s < p->width; s += LANES)
            vstore(share + s, vload(share + s) + vload(row + s) - vload(p->score + s));
        const float total = exp_row(share, share, p->states, row_largest(share, p->states));
        for (int64_t s = 0; s < p->states; s++)
            grad[t * p->step + (s & 1 ? p->labels[s >> 1] : p->blank)] -= share[s] / total;
    }
}

KERNEL(ctc_f32)
{
    float *loss = record->pointers[ctc_f32_loss], *grad = record->pointers[ctc_f32_grad];
    const float *log_probs = record->pointers[ctc_f32_log_probs];
    const int32_t *labels = record->pointers[ctc_f32_labels], *times = record->pointers[ctc_f32_times],
                  *lengths = record->pointers[ctc_f32_lengths];
    float *scratch = record->pointers[ctc_f32_scratch];
    const int64_t steps = record->dims[ctc_f32_steps], count = record->dims[ctc_f32_count],
                  classes = record->dims[ctc_f32_classes], most = record->dims[ctc_f32_most];
    const int64_t blank = record->dims[ctc_f32_blank], room = record->dims[ctc_f32_room];
    const int active = workers < record->dims[ctc_f32_workspaces] ? workers : (int)record->dims[ctc_f32_workspaces];
    int64_t first, end;
    for (int64_t n = 0; n < count; n++)
        for (int64_t i = 0; i < lengths[n]; i++)
            if (labels[n * most + i] < 0 || labels[n * most + i] >= classes)
                return KERNEL_INDEX_RANGE;
    if (worker >= active)
        return KERNEL_OK;
    worker_share(count, 1, worker, active, &first, &end);
    for (int64_t n = first; n < end; n++) {
        const int64_t states = 2 * lengths[n] + 1, width = (states + LANES - 1) / LANES * LANES;
        float *g = grad ? grad + n * classes : NULL;
        for (int64_t t = 0; g && t < steps; t++)
            fill(g + t * count * classes, classes, 0);
        loss[n] = lengths[n] ? INFINITE : 0;
        if (!times[n])
            continue;
        paths p = {.log_probs = log_probs + n * classes,
                   .labels = labels + n * most,
                   .step = count * classes,
                   .times = times[n],
                   .states = states,
                   .width = width,
                   .blank = blank};
        prepare(&p, scratch + worker * room, g ? times[n] : 2);
        loss[n] = forward(&p, g != NULL);
        if (g && loss[n] < INFINITE)
            backward(&p, g);
        else if (g)
            for (int64_t t = 0; t < times[n]; t++) /* without paths there is no posterior */
                fill(g + t * count * classes, classes, __builtin_nanf(""));
    }
    return KERNEL_OK;
}
