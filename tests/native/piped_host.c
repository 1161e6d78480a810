/* Runs records in the library of kernels for piped.py, on an emulated machine or system: piped_host LIBRARY
 * At its start it writes the signature, the address of the arrays (8 bytes), and the length (4) and the name of the
 * instruction set. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#include <fcntl.h>
#include <io.h>
#include <windows.h>
#else
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

enum { RECORD_BYTES = 280, PAGE = 4096, PIECE = 1 << 20 };
static const size_t MOST = (size_t)1 << 30;

/* open_library, find: NULL where there is none. reserve: `size` bytes, of which the system has what is used. */
#if defined(_WIN32)
static void *open_library(const char *path)
{
    _setmode(0, _O_BINARY); /* or bytes that look like the ends of lines change */
    _setmode(1, _O_BINARY);
    return LoadLibraryA(path);
}
static void *find(void *library, const char *name) { return (void *)GetProcAddress(library, name); }
static void *reserve(size_t size) { return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }
#else
static void *open_library(const char *path) { return dlopen(path, RTLD_NOW); }
static void *find(void *library, const char *name) { return dlsym(library, name); }
static void *reserve(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}
#endif

static unsigned piece(size_t size) { return size < PIECE ? (unsigned)size : PIECE; }

static void read_all(void *to, size_t size)
{
    for (size_t at = 0; at < size;) {
        const int count = (int)read(0, (char *)to + at, piece(size - at));
        if (count <= 0)
            exit(0);
        at += (size_t)count;
    }
}

static void write_all(const void *from, size_t size)
{
    for (size_t at = 0; at < size;) {
        const int count = (int)write(1, (const char *)from + at, piece(size - at));
        if (count <= 0)
            exit(1);
        at += (size_t)count;
    }
}

int main(int count, char **arguments)
{
    void *library = count == 2 ? open_library(arguments[1]) : NULL;
    if (!library) {
        fprintf(stderr, "piped_host: %s\n", count == 2 ? "the library does not load" : "takes a library");
        return 1;
    }
    const char *(*signature)(void) = find(library, "pyapp_signature");
    const char *(*instruction_set)(void) = find(library, "pyapp_instruction_set");
    int32_t (*run)(const void *, int32_t) = find(library, "pyapp_run");
    char *memory = reserve(MOST);
    if (!memory)
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
