/* engine/base/os/machine.h — the machine's name, its cpus and its random bytes. Any thread. */
#ifndef CAIRN_BASE_OS_MACHINE_H
#define CAIRN_BASE_OS_MACHINE_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/text/str.h"

/* The kernel's random bytes. May wait for them, but only while the machine boots. */
void random_bytes(void *to, size_t n);
uint64_t random_u64(void);

#define RANDOM_LETTERS 5
/* No vowels and no look-alikes, so that ids are neither words nor misread. */
#define RANDOM_ALPHABET "23456789bcdfghjkmnpqrstvwxz"
void random_letters(char to[RANDOM_LETTERS + 1]);

#define MACHINE_NAME_BYTES 256
const char *machine_name(char to[MACHINE_NAME_BYTES]); /* returns `to`; "" when it has none */
/* Appends what tells this build of the program from others: its version, its file's size and
 * time. */
void machine_add_program(struct str *out);

/* Cpus by their numbers. A plain cpu_set_t has room for 1,024, and on a machine with more the
 * kernel refuses it; Linux supports at most 8,192. */
#define MACHINE_CPUS_MAX 8192
struct cpus {
	cpu_set_t sets[MACHINE_CPUS_MAX / CPU_SETSIZE];
};
int cpus_get(struct cpus *ret);     /* those that this thread may use; -1 with errno */
int cpus_use(const struct cpus *c); /* from now on this thread, and what it starts; -1 with errno */
unsigned cpus_count(const struct cpus *c);
bool cpus_has(const struct cpus *c, unsigned cpu);
void cpus_add(struct cpus *c, unsigned cpu);

#endif
