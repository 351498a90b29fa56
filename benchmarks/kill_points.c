/* Kills the process before its N-th operation on files under one folder.

   Loaded with LD_PRELOAD, it stands in front of the C library's functions that change files, so it
   sees what Python, h5py, pyarrow and safetensors do alike. See kill_points.py. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[PATH_MAX];
static long countdown = 0; /* operations until the kill; 0: none */
static long seen = 0;
static int journal = -1; /* a line for each operation */
static ssize_t (*real_write)(int, const void *, size_t);

/* Count operations on `path` and what is in it; kill before number `number` (0: never); write names to `log`. */
void kill_points_arm(const char *path, long number, int log) {
  real_write = dlsym(RTLD_NEXT, "write");
  strncpy(folder, path, sizeof folder - 1);
  countdown = number;
  seen = 0;
  journal = log;
}

static void before(const char *name, const char *path) {
  size_t length_of_folder = strlen(folder);
  if (!length_of_folder || strncmp(path, folder, length_of_folder) != 0) return;
  if (path[length_of_folder] != '/' && path[length_of_folder] != 0) return;
  long number = __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST);
  if (journal >= 0) {
    char line[PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%s .%s\n", name, path + length_of_folder);
    real_write(journal, line, length);
  }
  if (countdown && number == countdown) kill(getpid(), SIGKILL);
}

static void before_fd(const char *name, int fd) {
  char link[64], path[PATH_MAX];
  if (!folder[0]) return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = 0;
  before(name, path);
}

static void before_at(const char *name, int fd, const char *file) {
  char link[64], path[2 * PATH_MAX];
  if (!folder[0]) return;
  if (file[0] == '/') {
    before(name, file);
    return;
  }
  if (fd == AT_FDCWD) {
    if (!getcwd(path, PATH_MAX)) return;
  } else {
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0) return;
    path[length] = 0;
  }
  strcat(path, "/");
  strncat(path, file, PATH_MAX - 1);
  before(name, path);
}

#define CHANGES(flags) ((flags) & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC))
#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define MODE(flags)                   \
  mode_t mode = 0;                    \
  if ((flags) & (O_CREAT | O_TMPFILE)) { \
    va_list rest;                     \
    va_start(rest, flags);            \
    mode = va_arg(rest, mode_t);      \
    va_end(rest);                     \
  }

#define OPEN(name)                                        \
  int name(const char *path, int flags, ...) {            \
    REAL(name);                                           \
    MODE(flags)                                           \
    if (CHANGES(flags)) before_at("open", AT_FDCWD, path); \
    return real(path, flags, mode);                       \
  }
#define OPENAT(name)                                \
  int name(int fd, const char *path, int flags, ...) { \
    REAL(name);                                     \
    MODE(flags)                                     \
    if (CHANGES(flags)) before_at("open", fd, path); \
    return real(fd, path, flags, mode);             \
  }
#define ON_PATH(name, type, declared, given) \
  int name declared {                        \
    REAL(name);                              \
    before_at(#name, AT_FDCWD, path);        \
    return real given;                       \
  }
#define AT_PATH(name, declared, given) \
  int name declared {                  \
    REAL(name);                        \
    before_at(#name, fd, path);        \
    return real given;                 \
  }
#define ON_FD(type, name, declared, given) \
  type name declared {                     \
    REAL(name);                            \
    before_fd(#name, fd);                  \
    return real given;                     \
  }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
ON_PATH(rename, int, (const char *path, const char *to), (path, to))
ON_PATH(unlink, int, (const char *path), (path))
ON_PATH(rmdir, int, (const char *path), (path))
ON_PATH(mkdir, int, (const char *path, mode_t mode), (path, mode))
ON_PATH(chmod, int, (const char *path, mode_t mode), (path, mode))
ON_PATH(truncate, int, (const char *path, off_t size), (path, size))
ON_PATH(truncate64, int, (const char *path, off64_t size), (path, size))
AT_PATH(renameat, (int fd, const char *path, int other, const char *to), (fd, path, other, to))
AT_PATH(renameat2, (int fd, const char *path, int other, const char *to, unsigned flags),
        (fd, path, other, to, flags))
AT_PATH(unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
AT_PATH(mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
AT_PATH(fchmodat, (int fd, const char *path, mode_t mode, int flags), (fd, path, mode, flags))
ON_FD(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
ON_FD(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
ON_FD(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
ON_FD(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
ON_FD(int, ftruncate, (int fd, off_t size), (fd, size))
ON_FD(int, ftruncate64, (int fd, off64_t size), (fd, size))
ON_FD(int, fchmod, (int fd, mode_t mode), (fd, mode))
ON_FD(int, fsync, (int fd), (fd))
ON_FD(int, fdatasync, (int fd), (fd))
ON_FD(int, flock, (int fd, int how), (fd, how))
