/* A client whose operation, index_fetch, runs through more code than a level-one instruction cache holds, as those of database
   systems do. Four stages of straight code stand for what such an operation is made of: find the leaf, take the lock, read the row,
   answer.

   Compiled with
     -DMARKED   marker instructions stand around the operation
     -DLATCHED  a mutex is held over all stages
     -DPOINTS   CTX points are compiled in at the beginning of each stage
     -DEXITS    the third operation ends the program
     -DTHREADS  four threads do the same work
     -DENDLESS  it never ends; a function called never never runs */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef MARKED
#define MARK(kind) __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00, " kind ", 0x45, 0x54, 0x53")
#else
#define MARK(kind)
#endif

#ifdef POINTS
/* The record of a CTX point, as the program's runtime and a tracer read it. */
struct point {
    volatile uint8_t on;
    uint8_t prefetches;
    uint32_t line, column;
    const char *file;
    uint64_t file_bytes;
};
#define CTX(prefetch)                                                                                                             \
    do {                                                                                                                          \
        static struct point point __attribute__((section("corun_ctx"), used)) = {0, prefetch, __LINE__, 5, "client.c", 8};        \
        if (point.on)                                                                                                             \
            abort();                                                                                                              \
    } while (0)
#else
#define CTX(prefetch)
#endif

#define MIX(k) x ^= x << 13; x += (k) * 2654435761u; x ^= x >> 7; x -= (k) * 40503u; x ^= x << 17;
#define MIX8(k) MIX(k) MIX(k + 1) MIX(k + 2) MIX(k + 3) MIX(k + 4) MIX(k + 5) MIX(k + 6) MIX(k + 7)
#define MIX64(k) MIX8(k) MIX8(k + 8) MIX8(k + 16) MIX8(k + 24) MIX8(k + 32) MIX8(k + 40) MIX8(k + 48) MIX8(k + 56)

static pthread_mutex_t latch = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static uint32_t find_leaf(uint32_t x) {
    CTX(1);
    MIX64(1)
    MIX64(65)
    MIX64(129)
    MIX64(193)
    MIX64(257)
    MIX64(321)
    return x;
}

__attribute__((noinline)) static uint32_t take_lock(uint32_t x) {
    CTX(0);
    MIX64(1001)
    MIX64(1065)
    MIX64(1129)
    MIX64(1193)
    MIX64(1257)
    MIX64(1321)
    return x;
}

__attribute__((noinline)) static uint32_t read_row(uint32_t x) {
    CTX(0);
    MIX64(2001)
    MIX64(2065)
    MIX64(2129)
    MIX64(2193)
    MIX64(2257)
    MIX64(2321)
    return x;
}

__attribute__((noinline)) static uint32_t answer(uint32_t x) {
    CTX(0);
    MIX64(3001)
    MIX64(3065)
    MIX64(3129)
    MIX64(3193)
    MIX64(3257)
    MIX64(3321)
    return x;
}

static int operations;

__attribute__((noinline)) uint32_t index_fetch(uint32_t key) {
    /* Nobody knows what it does with a key: it is called each time. */
    __asm__ volatile("" : "+r"(key));
#ifdef EXITS
    if (++operations == 3)
        exit(7);
#endif
#ifdef LATCHED
    pthread_mutex_lock(&latch);
#endif
    uint32_t x = find_leaf(key);
    x = take_lock(x);
    x = read_row(x);
    x = answer(x);
#ifdef LATCHED
    pthread_mutex_unlock(&latch);
#endif
    return x;
}

/* Another operation: it shares two stages with the first. */
__attribute__((noinline)) uint32_t index_scan(uint32_t key) {
    __asm__ volatile("" : "+r"(key));
    return read_row(find_leaf(read_row(find_leaf(key))));
}

__attribute__((noinline)) void never(void) {
    abort();
}

static void *work(void *count) {
    uintptr_t sum = 0;
    for (uintptr_t key = 0; key < (uintptr_t)count; key++) {
        MARK("1");
        sum += index_fetch((uint32_t)key);
        MARK("2");
        sum += index_scan((uint32_t)key);
    }
    return (void *)sum;
}

int main(void) {
    uintptr_t sum = (uintptr_t)work((void *)20);
#ifdef THREADS
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, (void *)20000);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
#endif
#ifdef ENDLESS
    while (sum != 1)
        sum |= (uintptr_t)work((void *)20) | 2;
    never();
#endif
    pthread_mutex_destroy(&latch);
    printf("sum %lx, %d exits\n", (unsigned long)sum, operations);
    return 0;
}
