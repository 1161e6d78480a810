/* How many multiprocessors the card has, for kernels that cut their work so that it fills the card: sources.text_of defines it
 * for the card at hand, and the expressions that Python reads have the same number. Here: H100. */
#ifndef PYAPP_MULTIPROCESSORS_H
#define PYAPP_MULTIPROCESSORS_H
#ifndef MULTIPROCESSORS
#define MULTIPROCESSORS 132
#endif
#endif
