/* Included before everything: Pyodide's main module has a 64-bit time_t, Emscripten 3.1.6 a 32-bit one. */
#if !defined(__ASSEMBLER__) && !defined(__DEFINED_time_t)
typedef long long time_t;
#define __DEFINED_time_t
#endif
