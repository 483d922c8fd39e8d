/* What a process gives up before it meets untrusted code: Landlock for files, TCP and signals, a seccomp filter for system
 * calls, resource limits. Each part works where the kernel has it; whoever calls is told what was reached.
 *
 * Sources: Documentation/userspace-api/landlock.rst and seccomp_filter.rst of Linux. Only raw system calls: no library.
 */
#ifndef KFORECAST_CONFINE_H
#define KFORECAST_CONFINE_H
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Same numbers on every architecture; older headers lack them. */
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, RULE_PATH_BENEATH = 1, RULESET_VERSION = 1 };
enum {
    FILE_EXECUTE = 1 << 0, FILE_WRITE = 1 << 1, FILE_READ = 1 << 2, FOLDER_READ = 1 << 3, FILE_TRUNCATE = 1 << 14,
    FILE_IOCTL = 1 << 15, OF_FILES = FILE_EXECUTE | FILE_WRITE | FILE_READ | FILE_TRUNCATE | FILE_IOCTL,
};
struct ruleset { uint64_t files, network, scoped; };
struct path_beneath { uint64_t allowed; int32_t parent; } __attribute__((packed));

static int allow_path(int rules, const char *path, uint64_t allowed) {
    struct stat facts;
    int file = open(path, O_PATH | O_CLOEXEC);
    if (file < 0) return 0; /* what is not there needs no rule */
    if (fstat(file, &facts) == 0 && !S_ISDIR(facts.st_mode)) allowed &= OF_FILES;
    struct path_beneath rule = {allowed, file};
    long failed = syscall(ADD_RULE, rules, RULE_PATH_BENEATH, &rule, 0);
    close(file);
    return failed ? -1 : 0;
}

/* `paths`: separated by colons; the end of the list is an empty text. */
static int allow_paths(int rules, const char *paths, uint64_t allowed) {
    char path[4096];
    while (*paths) {
        size_t length = strcspn(paths, ":");
        if (length >= sizeof path) return -1;
        memcpy(path, paths, length), path[length] = 0;
        if (length && allow_path(rules, path, allowed)) return -1;
        paths += length + (paths[length] == ':');
    }
    return 0;
}

/* From now on: files below `readable` can be read (and executed, where `execute`), files below `writable` can be everything;
 * no TCP, no abstract unix sockets, no signals to processes outside. Returns the Landlock version in force, 0 for none. */
static int confine_files(const char *readable, const char *writable, int execute) {
    int version = (int)syscall(CREATE_RULESET, NULL, 0, RULESET_VERSION);
    if (version < 1) return 0;
    uint64_t all = (1ull << 13) - 1; /* version 1 */
    if (version >= 2) all |= 1ull << 13; /* linking across folders */
    if (version >= 3) all |= FILE_TRUNCATE;
    if (version >= 5) all |= FILE_IOCTL;
    struct ruleset wanted = {all, version >= 4 ? 3 : 0, version >= 6 ? 3 : 0};
    size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
    int rules = (int)syscall(CREATE_RULESET, &wanted, size, 0);
    if (rules < 0) return 0;
    uint64_t read = FILE_READ | FOLDER_READ | (execute ? FILE_EXECUTE : 0);
    int failed = allow_paths(rules, readable, read & all) || allow_paths(rules, writable, all)
        || allow_paths(rules, "/dev/null:/dev/zero:/dev/full", (FILE_READ | FILE_WRITE | FILE_TRUNCATE) & all);
    failed = failed || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(RESTRICT_SELF, rules, 0);
    close(rules);
    return failed ? 0 : version;
}

enum { FILTER_LIMIT = 512, NUMBER = 0, ARCHITECTURE = 4, ARGUMENT = 16, SECOND_ARGUMENT = 24, THIRD_ARGUMENT = 32 };
struct filter { struct sock_filter code[FILTER_LIMIT]; unsigned short size; };

static void emit(struct filter *f, uint16_t code, uint32_t k, uint8_t yes, uint8_t no) {
    if (f->size < FILTER_LIMIT) f->code[f->size++] = (struct sock_filter){code, yes, no, k};
}

static void refuse(struct filter *f, int number, int error) {
    if (number < 0) return;
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1);
    emit(f, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error, 0, 0);
}

/* Allowed only where the low half of the first argument is `a` or `b`; ends with the number in the accumulator again. */
static void only_for(struct filter *f, int number, uint32_t a, uint32_t b) {
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 5);
    emit(f, BPF_LD | BPF_W | BPF_ABS, ARGUMENT, 0, 0);
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, a, 2, 0);
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, b, 1, 0);
    emit(f, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
    emit(f, BPF_LD | BPF_W | BPF_ABS, NUMBER, 0, 0);
}

/* Refused where the low half of the argument at this offset is `value`; ends with the number in the accumulator again. */
static void not_with(struct filter *f, int number, uint32_t argument, uint32_t value) {
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 4);
    emit(f, BPF_LD | BPF_W | BPF_ABS, argument, 0, 0);
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    emit(f, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
    emit(f, BPF_LD | BPF_W | BPF_ABS, NUMBER, 0, 0);
}

/* Who is stopped between calls may not continue himself: neither by a signal, nor by one that a timer or a descriptor
 * sends. */
static void stays_stopped(struct filter *f) {
    not_with(f, SYS_kill, SECOND_ARGUMENT, SIGCONT);
    not_with(f, SYS_tgkill, THIRD_ARGUMENT, SIGCONT);
    not_with(f, SYS_rt_tgsigqueueinfo, THIRD_ARGUMENT, SIGCONT);
    not_with(f, SYS_fcntl, SECOND_ARGUMENT, 10 /* F_SETSIG */);
    refuse(f, SYS_timer_create, EPERM);
    refuse(f, SYS_mq_notify, EPERM);
}

#if defined __x86_64__
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define OWN_ARCHITECTURE 0
#endif
#ifdef SYS_fork
#define OLD_FORKS SYS_fork, SYS_vfork
#else
#define OLD_FORKS -1, -1
#endif
#if defined __x86_64__
#define PORTS SYS_iopl, SYS_ioperm, SYS_modify_ldt
#else
#define PORTS -1
#endif

/* Of sockets only those that can be waited at: local, connected ones (not SOCK_DGRAM, 2, nor SOCK_RAW, 3), and `connect` is
 * refused. A CUDA driver makes one for the processes that share its memory, and does not start without it. */
static void only_own_sockets(struct filter *f) {
    refuse(f, SYS_connect, EPERM);
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 6);
    emit(f, BPF_LD | BPF_W | BPF_ABS, ARGUMENT, 0, 0);
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, 1 /* AF_UNIX */, 0, 2);
    emit(f, BPF_LD | BPF_W | BPF_ABS, SECOND_ARGUMENT, 0, 0);
    emit(f, BPF_JMP | BPF_JSET | BPF_K, 2, 0, 1);
    emit(f, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
    emit(f, BPF_LD | BPF_W | BPF_ABS, NUMBER, 0, 0);
}

/* Refuse the system calls that neither a kernel nor a compiler has any use for. `alone`: also those that start programs or
 * processes, leave the process group or reach another process; threads stay possible. `driver`: for a program that uses a
 * device's driver. Returns whether the filter stands. */
static int confine_calls(int alone, int driver) {
    static const int never[] = {
        SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd,
        SYS_keyctl, SYS_add_key, SYS_request_key, SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module,
        SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_setns, SYS_unshare, SYS_reboot, SYS_swapon, SYS_swapoff,
        SYS_acct, SYS_syslog, SYS_sethostname, SYS_setdomainname, SYS_clock_settime, SYS_settimeofday, SYS_adjtimex,
        SYS_clock_adjtime, SYS_open_by_handle_at, SYS_name_to_handle_at, SYS_fanotify_init, SYS_move_pages,
        SYS_migrate_pages, SYS_personality, SYS_setpriority, SYS_sched_setscheduler, SYS_sched_setparam,
        SYS_sched_setattr, SYS_ioprio_set, SYS_rt_sigqueueinfo, PORTS,
        /* by number, the same everywhere: headers may be older than the kernel */
        424 /* pidfd_send_signal */, 425, 426, 427 /* io_uring */, 428 /* open_tree */, 429 /* move_mount */, 430, 431, 432,
        433 /* fsopen, fsconfig, fsmount, fspick */, 434 /* pidfd_open */, 438 /* pidfd_getfd */, 440 /* process_madvise */,
        442 /* mount_setattr */, 448 /* process_mrelease */,
    };
    static const int not_alone[] = {
        OLD_FORKS, SYS_execve, SYS_execveat, SYS_setsid, SYS_setpgid, SYS_tkill, SYS_socketpair,
    };
    if (!OWN_ARCHITECTURE) return 0;
    static struct filter f;
    emit(&f, BPF_LD | BPF_W | BPF_ABS, ARCHITECTURE, 0, 0);
    emit(&f, BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCHITECTURE, 1, 0);
    emit(&f, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
    emit(&f, BPF_LD | BPF_W | BPF_ABS, NUMBER, 0, 0);
#if defined __x86_64__
    emit(&f, BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1); /* the x32 numbers of the same calls */
    emit(&f, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
#endif
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) refuse(&f, never[i], EPERM);
    if (driver) only_own_sockets(&f);
    else refuse(&f, SYS_socket, EPERM);
    if (alone) {
        uint32_t own = (uint32_t)getpid();
        for (size_t i = 0; i < sizeof not_alone / sizeof *not_alone; i++) refuse(&f, not_alone[i], EPERM);
        refuse(&f, 435 /* clone3: its flags lie in memory; "not there" makes libc use clone */, ENOSYS);
        only_for(&f, SYS_kill, own, own);
        only_for(&f, SYS_tgkill, own, own);
        only_for(&f, SYS_rt_tgsigqueueinfo, own, own);
        only_for(&f, SYS_prlimit64, 0, own);
        if (!driver) stays_stopped(&f); /* on a device nothing is stopped between calls */
        /* Threads only, and none that its maker sleeps for: a stop that is handed to such a sleeper reaches nobody. */
        emit(&f, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 5);
        emit(&f, BPF_LD | BPF_W | BPF_ABS, ARGUMENT, 0, 0);
        emit(&f, BPF_JMP | BPF_JSET | BPF_K, CLONE_VFORK, 1, 0);
        emit(&f, BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0);
        emit(&f, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
        emit(&f, BPF_LD | BPF_W | BPF_ABS, NUMBER, 0, 0);
        emit(&f, BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 4);
        emit(&f, BPF_LD | BPF_W | BPF_ABS, ARGUMENT, 0, 0);
        emit(&f, BPF_JMP | BPF_JEQ | BPF_K, PR_SET_PDEATHSIG, 0, 1);
        emit(&f, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
        emit(&f, BPF_LD | BPF_W | BPF_ABS, NUMBER, 0, 0);
    }
    emit(&f, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    if (f.size >= FILTER_LIMIT) return 0;
    struct sock_fprog program = {f.size, f.code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 0;
    /* SPEC_ALLOW: on older kernels a filter would otherwise turn off speculation and slow down what is timed. */
    unsigned long flags = 1ul << 2;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0
        || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

static void limit(int resource, rlim_t value) {
    struct rlimit now;
    if (getrlimit(resource, &now)) return;
    if (now.rlim_max != RLIM_INFINITY && value > now.rlim_max) value = now.rlim_max;
    now.rlim_cur = now.rlim_max = value;
    setrlimit(resource, &now);
}

/* `own_users`: in a user namespace of our own, where since Linux 5.14 only our own threads count against NPROC. */
static void confine_resources(int own_users) {
    struct utsname about;
    int major = 0, minor = 0;
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_NOFILE, 256);
    limit(RLIMIT_MEMLOCK, 8 << 20);
    limit(RLIMIT_MSGQUEUE, 0);
    limit(RLIMIT_NICE, 0);
    limit(RLIMIT_RTPRIO, 0);
    if (own_users && uname(&about) == 0 && sscanf(about.release, "%d.%d", &major, &minor) == 2
        && (major > 5 || (major == 5 && minor >= 14)))
        limit(RLIMIT_NPROC, 1024);
}
#endif
