/* The candidate process of the cpu device: loads one kernel's shared object, maps its tensors between guard pages, and runs
 * it when told to. The parent owns clock, seeds, references and verdict; nothing of those is in this address space.
 *
 * usage: candidate CONTROL_FD INPUT_FD OUTPUT_FD OUTPUT_LIMIT ADDRESS_LIMIT DEFENCES READABLE HOME
 *
 * Control messages are fixed-size packets on a SOCK_SEQPACKET socket. First comes the plan (struct plan_head, then regions,
 * launches and arguments), answered by GROUP (the process group to signal) and CONFINED while no untrusted code has run,
 * then, with the kernel loaded, by READY; then commands (struct command), each answered by one struct reply. DEFENCES is a sum of the DEFENCE_… below; READABLE are
 * the paths, separated by colons, that Landlock leaves readable, HOME the one folder that stays writable. A plan without a
 * binary loads nothing: an empty call of such a process is known to be one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "confine.h"

enum { DEFENCE_NAMESPACES = 1, DEFENCE_LANDLOCK = 2, DEFENCE_SECCOMP = 4, DEFENCE_LIMITS = 8 };
enum { MAX_REGIONS = 64, MAX_LAUNCHES = 64, MAX_ARGUMENTS = 64 };
enum { OP_CALL = 1, OP_NOTHING = 2, OP_END = 3 };
enum { REPLY_READY = 1, REPLY_DONE = 2, REPLY_FAULT = 3, REPLY_LOAD_FAILED = 4, REPLY_CONFINED = 5, REPLY_GROUP = 6 };

struct plan_head { uint32_t regions, launches; char binary[4096]; };
/* `offset` and `mapped` are page multiples within one of the two memory files; the tensor's `size` bytes begin at `start`
 * in the mapping. A zeroed region is cleared inside every timed call, as the header asks. */
struct region { uint64_t offset, mapped, start, size; uint32_t writable, zeroed; };
struct launch { char symbol[64]; uint32_t arguments, unused; };
/* kind 0: the scalar's bytes are in `value`; kind 1: `value` is the number of a region. */
struct argument { uint32_t kind, unused; uint64_t value; };
struct command { uint32_t op, sequence; };
struct reply { uint32_t kind, sequence; int64_t own_ns; uint64_t address; char text[256]; };

typedef void (*launcher)(void **);

static int control = -1;
static uint32_t current;

static void say(uint32_t kind, uint32_t sequence, int64_t own_ns, uint64_t address, const char *text) {
    struct reply reply;
    memset(&reply, 0, sizeof reply);
    reply.kind = kind, reply.sequence = sequence, reply.own_ns = own_ns, reply.address = address;
    if (text) strncpy(reply.text, text, sizeof reply.text - 1);
    if (send(control, &reply, sizeof reply, MSG_NOSIGNAL) < 0) _exit(121);
}

static void fail(const char *what) {
    char text[256];
    snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
    say(REPLY_LOAD_FAILED, 0, 0, 0, text);
    _exit(120);
}

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    char text[2] = {(char)number, 0};
    say(REPLY_FAULT, current, number, (uint64_t)(uintptr_t)info->si_addr, text);
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_faults(void) {
    static char stack[64 << 10];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, NULL); /* a stack overflow must still be able to say so */
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
    const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
}

static void write_text(const char *path, const char *text) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    if (write(file, text, strlen(text)) < 0) { /* unmapped ids only change what `whoami` prints inside */ }
    close(file);
}

static void pass_on(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

/* Enter new user, pid and ipc namespaces, so that everything the kernel ever forks dies with them. Three processes: the
 * outer one and the namespace's first one only pass the exit status on; the kernel runs in the third. It must not be the
 * first itself, which ignores the signals whose default is to kill: an abort or an output flood would go unseen.
 * Returns 1 in the third process, 0 in this one where namespaces are refused. */
static int enter_namespaces(void) {
    char map[64], byte;
    int gate[2];
    unsigned uid = getuid(), gid = getgid();
    if (pipe2(gate, O_CLOEXEC)) return 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWIPC)) {
        close(gate[0]), close(gate[1]);
        return 0;
    }
    write_text("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1", uid, uid), write_text("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "%u %u 1", gid, gid), write_text("/proc/self/gid_map", map);
    pid_t first = fork();
    if (first < 0) _exit(118);
    if (first > 0) {
        /* A group of its own, without this process: killed with the rest it could not reap the namespace. */
        setpgid(first, first);
        say(REPLY_GROUP, 0, first, 0, NULL);
        close(gate[0]), close(gate[1]), close(control);
        pass_on(first);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(gate[1]);
    if (read(gate[0], &byte, 1) < 0) _exit(118); /* until the group is made and told */
    close(gate[0]);
    pid_t second = fork();
    if (second < 0) _exit(118);
    if (second > 0) {
        close(control);
        pass_on(second);
    }
    return 1;
}

/* The last step before untrusted code; says in words what was reached. */
static void confine(int isolated, int defences, const char *binary, const char *readable, const char *home) {
    char paths[16384], words[128];
    int version = 0, filtered = 0;
    if (snprintf(paths, sizeof paths, "%s:%s", readable, binary) >= (int)sizeof paths) { errno = E2BIG; fail("paths"); }
    if (defences & DEFENCE_LANDLOCK) version = confine_files(paths, home, 0);
    if (defences & DEFENCE_SECCOMP) filtered = confine_calls(1, 0);
    int size = snprintf(words, sizeof words, "%s", isolated ? "namespaces user+pid+ipc" : "process");
    if (version) size += snprintf(words + size, sizeof words - size, ", Landlock %d", version);
    if (filtered) snprintf(words + size, sizeof words - size, ", seccomp");
    say(REPLY_CONFINED, 0, 0, 0, words);
}

static void receive(void *into, size_t size, const char *what) {
    char *at = into;
    while (size) {
        ssize_t got = recv(control, at, size > 32768 ? 32768 : size, 0);
        if (got <= 0) fail(what);
        at += got, size -= (size_t)got;
    }
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int count, char **texts) {
    if (count != 9) return 119;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    control = atoi(texts[1]);
    int files[2] = {atoi(texts[2]), atoi(texts[3])};
    const int defences = atoi(texts[6]);
    const char *readable = texts[7], *home = texts[8];
    int isolated = defences & DEFENCE_NAMESPACES ? enter_namespaces() : 0;
    if (!isolated) say(REPLY_GROUP, 0, getpid(), 0, NULL);
    if (defences & DEFENCE_LIMITS) {
        confine_resources(isolated);
        limit(RLIMIT_FSIZE, (rlim_t)strtoull(texts[4], NULL, 10));
    }

    static struct plan_head head;
    static struct region regions[MAX_REGIONS];
    static struct launch launches[MAX_LAUNCHES];
    static struct argument arguments[MAX_LAUNCHES][MAX_ARGUMENTS];
    receive(&head, sizeof head, "plan");
    if (head.regions > MAX_REGIONS || head.launches > MAX_LAUNCHES) { errno = E2BIG; fail("plan"); }
    receive(regions, head.regions * sizeof *regions, "regions");
    receive(launches, head.launches * sizeof *launches, "launches");
    for (uint32_t i = 0; i < head.launches; i++) {
        if (launches[i].arguments > MAX_ARGUMENTS) { errno = E2BIG; fail("arguments"); }
        receive(arguments[i], launches[i].arguments * sizeof **arguments, "arguments");
    }

    /* One reservation without access holds every tensor; what lies between two of them is a guard. */
    const size_t guard = 1 << 20;
    size_t total = guard;
    for (uint32_t i = 0; i < head.regions; i++) total += regions[i].mapped + guard;
    char *base = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) fail("reserve");
    static void *starts[MAX_REGIONS];
    char *at = base + guard;
    for (uint32_t i = 0; i < head.regions; i++) {
        int protection = regions[i].writable ? PROT_READ | PROT_WRITE : PROT_READ;
        void *got = mmap(at, regions[i].mapped, protection, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                         files[regions[i].writable ? 1 : 0], (off_t)regions[i].offset);
        if (got == MAP_FAILED) fail("map");
        starts[i] = at + regions[i].start;
        at += regions[i].mapped + guard;
    }
    close(files[0]), close(files[1]);
    if (defences & DEFENCE_LIMITS) limit(RLIMIT_AS, (rlim_t)(strtoull(texts[5], NULL, 10) + total));
    confine(isolated, defences, head.binary, readable, home);

    void *library = head.binary[0] ? dlopen(head.binary, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library && head.binary[0]) { say(REPLY_LOAD_FAILED, 0, 0, 0, dlerror()); return 120; }
    launcher entries[MAX_LAUNCHES];
    static void *pointers[MAX_LAUNCHES][MAX_ARGUMENTS];
    for (uint32_t i = 0; i < head.launches; i++) {
        *(void **)&entries[i] = dlsym(library, launches[i].symbol);
        if (!entries[i]) { say(REPLY_LOAD_FAILED, 0, 0, 0, dlerror()); return 120; }
        for (uint32_t j = 0; j < launches[i].arguments; j++)
            pointers[i][j] = arguments[i][j].kind ? (void *)&starts[arguments[i][j].value]
                                                  : (void *)&arguments[i][j].value;
    }
    watch_faults();
    {
        struct reply ready;
        memset(&ready, 0, sizeof ready);
        ready.kind = REPLY_READY, ready.address = (uint64_t)(uintptr_t)(base + guard);
        if (send(control, &ready, sizeof ready, MSG_NOSIGNAL) < 0) return 121;
    }

    for (;;) {
        struct command command;
        ssize_t got = recv(control, &command, sizeof command, 0);
        if (got == 0) return 0; /* the parent is gone or done with us */
        if (got != (ssize_t)sizeof command) return 122;
        current = command.sequence;
        if (command.op == OP_END) return 0;
        int64_t begin = now_ns();
        if (command.op == OP_CALL) {
            for (uint32_t i = 0; i < head.regions; i++)
                if (regions[i].zeroed) memset(starts[i], 0, regions[i].size);
            for (uint32_t i = 0; i < head.launches; i++) entries[i](pointers[i]);
        }
        int64_t end = now_ns();
        say(REPLY_DONE, command.sequence, end - begin, 0, NULL);
    }
}
