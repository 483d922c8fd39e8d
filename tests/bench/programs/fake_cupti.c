/* A stand-in for CUPTI: hands out three kernels, a copy and a fill when it is flushed, as the real one would. */
#include <cupti.h>
#include <stdlib.h>
#include <string.h>

static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static CUpti_ActivityKernel9 kernels[3];
static CUpti_ActivityMemcpy5 copy;
static CUpti_ActivityMemset4 fill;
static CUpti_Activity *records[] = {
    (CUpti_Activity *)&kernels[0], (CUpti_Activity *)&copy, (CUpti_Activity *)&kernels[1], (CUpti_Activity *)&fill,
    (CUpti_Activity *)&kernels[2],
};
static unsigned enabled, next, flushed;

CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r, CUpti_BuffersCallbackCompleteFunc c) {
    request = r, complete = c;
    return getenv("FAKE_REFUSES") ? CUPTI_ERROR_INSUFFICIENT_PRIVILEGES : CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
    (void)kind;
    enabled++;
    return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityFlushPeriod(uint32_t ms) {
    (void)ms;
    return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char **text) {
    (void)result;
    *text = "not allowed here";
    return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record) {
    (void)buffer, (void)valid;
    if (next == sizeof records / sizeof *records) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = records[next++];
    return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped) {
    (void)context, (void)stream;
    *dropped = 2;
    return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t flag) {
    uint8_t *buffer;
    size_t size, most;
    (void)flag;
    if (enabled != 3 || flushed++) return CUPTI_SUCCESS;
    for (int i = 0; i < 3; i++) {
        kernels[i].kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
        kernels[i].name = i < 2 ? "_Z5scaleIfEvPT_i" : "plain";
        kernels[i].start = 1000 * i, kernels[i].end = 1000 * i + 1000 * (i + 1);
    }
    copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY, copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, copy.bytes = 4096;
    copy.start = 5, copy.end = 505;
    fill.kind = CUPTI_ACTIVITY_KIND_MEMSET, fill.bytes = 64, fill.start = 0, fill.end = 100;
    request(&buffer, &size, &most);
    complete(NULL, 0, buffer, size, 8);
    return CUPTI_SUCCESS;
}
