#include "base/os/machine.h"
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/macros.h"

void random_bytes(void *to, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t got = getrandom((char *)to + done, n - done, 0);

		assert(got >= 0 || errno == EINTR);
		done += (size_t)MAX(got, 0);
	}
}

uint64_t random_u64(void)
{
	uint64_t v;

	random_bytes(&v, sizeof(v));
	return v;
}

void random_letters(char to[RANDOM_LETTERS + 1])
{
	uint64_t rnd = random_u64();

	for (int i = 0; i < RANDOM_LETTERS; i++, rnd /= sizeof(RANDOM_ALPHABET) - 1)
		to[i] = RANDOM_ALPHABET[rnd % (sizeof(RANDOM_ALPHABET) - 1)];
	to[RANDOM_LETTERS] = '\0';
}

const char *machine_name(char to[MACHINE_NAME_BYTES])
{
	memset(to, 0, MACHINE_NAME_BYTES);
	if (gethostname(to, MACHINE_NAME_BYTES - 1) < 0)
		*to = '\0';
	return to;
}

void machine_add_program(struct str *out)
{
	struct stat self;

	str_add_field(out, CAIRN_VERSION, strlen(CAIRN_VERSION));
	if (stat("/proc/self/exe", &self) < 0)
		return;
	str_add_u64(out, (uint64_t)self.st_size);
	str_add_u64(out, (uint64_t)self.st_mtim.tv_sec * NS_PER_S + (uint64_t)self.st_mtim.tv_nsec);
}

int cpus_get(struct cpus *ret)
{
	*ret = (struct cpus){ 0 };
	return sched_getaffinity(0, sizeof(ret->sets), ret->sets);
}

int cpus_use(const struct cpus *c)
{
	return sched_setaffinity(0, sizeof(c->sets), c->sets);
}

unsigned cpus_count(const struct cpus *c)
{
	return (unsigned)CPU_COUNT_S(sizeof(c->sets), c->sets);
}

bool cpus_has(const struct cpus *c, unsigned cpu)
{
	assert(cpu < MACHINE_CPUS_MAX);
	return CPU_ISSET_S(cpu, sizeof(c->sets), c->sets);
}

void cpus_add(struct cpus *c, unsigned cpu)
{
	assert(cpu < MACHINE_CPUS_MAX);
	CPU_SET_S(cpu, sizeof(c->sets), c->sets);
}
