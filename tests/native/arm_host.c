/* Runs records in the library of kernels for piped.py, on a machine that is emulated: arm_host LIBRARY
 * At its start it writes the signature, the address of the arrays (8 bytes), and the length (4) and the name of the
 * instruction set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RECORD_BYTES = 280, PAGE = 4096 };
static const size_t MOST = (size_t)1 << 30;

static void read_all(void *to, size_t size)
{
    for (size_t at = 0; at < size;) {
        const ssize_t count = read(0, (char *)to + at, size - at);
        if (count <= 0)
            exit(0);
        at += (size_t)count;
    }
}

static void write_all(const void *from, size_t size)
{
    for (size_t at = 0; at < size;) {
        const ssize_t count = write(1, (const char *)from + at, size - at);
        if (count <= 0)
            exit(1);
        at += (size_t)count;
    }
}

int main(int count, char **arguments)
{
    void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    if (!library) {
        fprintf(stderr, "arm_host: %s\n", count == 2 ? dlerror() : "takes a library");
        return 1;
    }
    const char *(*signature)(void) = dlsym(library, "pyapp_signature");
    const char *(*instruction_set)(void) = dlsym(library, "pyapp_instruction_set");
    int32_t (*run)(const void *, int32_t) = dlsym(library, "pyapp_run");
    char *memory = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    char *const arrays = memory + PAGE, *const record = arrays - RECORD_BYTES; /* a request is one piece of memory */
    const uint64_t address = (uint64_t)(uintptr_t)arrays;
    const uint32_t length = (uint32_t)strlen(instruction_set());
    write_all(signature(), strlen(signature()));
    write_all(&address, sizeof address);
    write_all(&length, sizeof length);
    write_all(instruction_set(), length);
    for (;;) {
        uint32_t size;
        read_all(&size, sizeof size);
        if (size < RECORD_BYTES || size > MOST - PAGE)
            return 1;
        read_all(record, size);
        const int32_t code = run(record, 1);
        write_all(&code, sizeof code);
        write_all(arrays, size - RECORD_BYTES);
    }
}
