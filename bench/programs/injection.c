/* Loaded by the CUDA driver into a program (CUDA_INJECTION64_PATH): writes down every kernel, copy and fill that ran.
 *
 * Built against the machine's own CUPTI. KFORECAST_ACTIVITY names the file, which records are appended to: see `struct
 * record` here and `activity.py`. Activity records and their buffers: CUPTI User's Guide, "CUPTI Activity API".
 */
#include <cupti.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME = 1, KERNEL = 2, COPY = 3, FILL = 4, DROPPED = 5, FAILED = 6 };
enum { BUFFER = 1 << 20, SLOTS = 1 << 12, PERIOD_MS = 100, LONGEST = 4096 };

/* `name`: of a kernel the number that a NAME record before it gave to the `bytes` characters behind that one; of a copy its
 * kind. Times in ns on the device's clock. */
struct record { uint32_t kind, process, name, device; uint64_t start, end, bytes; };

static int file = -1;
static char *names[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void put(const struct record *record, const char *text) {
    char line[sizeof *record + LONGEST];
    size_t length = sizeof *record + (text ? record->bytes : 0);
    memcpy(line, record, sizeof *record);
    if (text) memcpy(line + sizeof *record, text, record->bytes);
    /* In one call: the records of several processes do not mix. A full file ends the list, not the program. */
    if (file >= 0 && write(file, line, length) != (ssize_t)length) { close(file); file = -1; }
}

static struct record made(uint32_t kind, uint32_t name, uint32_t device, uint64_t start, uint64_t end, uint64_t bytes) {
    return (struct record){kind, (uint32_t)getpid(), name, device, start, end, bytes};
}

/* The number of a name, told once. Names beyond the table share its last number. */
static uint32_t number_of(const char *name) {
    uint32_t hash = 2166136261u, tries;
    for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
    for (tries = 0; tries < SLOTS - 1; tries++) {
        uint32_t slot = (hash + tries) % (SLOTS - 1);
        if (names[slot] && !strcmp(names[slot], name)) return slot;
        if (!names[slot]) {
            size_t length = strnlen(name, LONGEST);
            names[slot] = strdup(name);
            struct record told = made(NAME, slot, 0, 0, 0, length);
            put(&told, name);
            return slot;
        }
    }
    return SLOTS - 1;
}

static void take(CUpti_Activity *any) {
    struct record record;
    if (any->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || any->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
        const CUpti_ActivityKernel9 *k = (const CUpti_ActivityKernel9 *)any;
        record = made(KERNEL, number_of(k->name ? k->name : "?"), k->deviceId, k->start, k->end, 0);
    } else if (any->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy5 *c = (const CUpti_ActivityMemcpy5 *)any;
        record = made(COPY, c->copyKind, c->deviceId, c->start, c->end, c->bytes);
    } else if (any->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const CUpti_ActivityMemset4 *f = (const CUpti_ActivityMemset4 *)any;
        record = made(FILL, 0, f->deviceId, f->start, f->end, f->bytes);
    } else {
        return;
    }
    put(&record, NULL);
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most) {
    *buffer = aligned_alloc(8, BUFFER);
    *size = *buffer ? BUFFER : 0;
    *most = 0;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    CUpti_Activity *record = NULL;
    size_t dropped = 0;
    (void)size;
    pthread_mutex_lock(&lock);
    while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) take(record);
    if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS && dropped) {
        struct record told = made(DROPPED, 0, 0, 0, 0, dropped);
        put(&told, NULL);
    }
    pthread_mutex_unlock(&lock);
    free(buffer);
}

static void flush(void) {
    cuptiActivityFlushAll(1 /* what is not complete too */);
}

static int failed(CUptiResult result) {
    const char *text = "?";
    if (result == CUPTI_SUCCESS) return 0;
    cuptiGetResultString(result, &text);
    struct record told = made(FAILED, (uint32_t)result, 0, 0, 0, strnlen(text, LONGEST));
    put(&told, text);
    return 1;
}

/* The driver calls it before the program's first CUDA call goes on; 1 is success. */
int InitializeInjection(void) {
    static const CUpti_ActivityKind kinds[] = {
        CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
    };
    const char *path = getenv("KFORECAST_ACTIVITY");
    if (!path || file >= 0) return 1;
    file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file < 0 || failed(cuptiActivityRegisterCallbacks(give_buffer, take_buffer))) return 1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) failed(cuptiActivityEnable(kinds[i]));
    /* So that what a program did before it crashed or was ended is known. */
    cuptiActivityFlushPeriod(PERIOD_MS);
    atexit(flush);
    return 1;
}
