#include "run/slots.h"
#include <assert.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

/* The driver makes /dev/nvidia0, /dev/nvidia1, …, one a device. */
static uint32_t count_gpus(void)
{
	char path[32];
	struct stat st;
	uint32_t n = 0;

	for (; n < 64; n++) {
		snprintf(path, sizeof(path), "/dev/nvidia%u", n);
		if (stat(path, &st) < 0)
			break;
	}
	return n;
}

/* A cluster limits its own load. This bounds how many attempts an engine tracks at once. */
#define REMOTE_JOBS 500

void slots_init(struct slots *s, const struct config *c, unsigned jobs, bool remote)
{
	uint32_t cpus = (uint32_t)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
	struct sysinfo si;

	*s = (struct slots){ .remote = remote,
			     .jobs = jobs                 ? jobs
				     : c->kubernetes.jobs ? c->kubernetes.jobs
							  : REMOTE_JOBS };
	if (remote)
		return;
	s->cpu_milli = c->limits.cpu_milli ? c->limits.cpu_milli : cpus * 1000;
	s->jobs = jobs ? jobs : c->limits.jobs ? c->limits.jobs : cpus;
	/* -j 8 on two cpus means what it says: eight ordinary tasks at once. */
	if (jobs || c->limits.jobs)
		s->cpu_milli = MAX(s->cpu_milli, s->jobs * 1000);
	s->memory_bytes = c->limits.memory_bytes ? c->limits.memory_bytes
			  : sysinfo(&si) == 0    ? (uint64_t)si.totalram * si.mem_unit
						 : UINT64_MAX;
	s->gpus = c->limits.gpus >= 0 ? (uint32_t)MIN(c->limits.gpus, 64) : count_gpus();
}

int slots_want(const struct slots *s, const struct resources_decl *r, uint32_t nodes,
	       double memory_factor, struct runner_resources *ret, struct err *err)
{
	double memory = (double)r->memory_bytes * (memory_factor > 1 ? memory_factor : 1) * nodes;
	uint64_t gpus = (uint64_t)r->gpus * nodes;

	if (s->remote) {
		*ret = (struct runner_resources){ .cpu_milli = r->cpu_milli, .gpus = r->gpus };
		ret->memory_bytes = (uint64_t)MIN((double)r->memory_bytes *
							  (memory_factor > 1 ? memory_factor : 1),
						  (double)INT64_MAX);
		return 0;
	}
	*ret = (struct runner_resources){
		.cpu_milli = (uint32_t)MIN((uint64_t)resources_cpu_milli(r) * nodes, s->cpu_milli),
		.gpus = (uint32_t)MIN(gpus, UINT32_MAX)
	};
	ret->memory_bytes = memory >= (double)s->memory_bytes
				    ? MIN((uint64_t)s->memory_bytes, (uint64_t)INT64_MAX)
				    : (uint64_t)memory;
	if (gpus > s->gpus || gpus > ARRAY_LEN(ret->gpu_ids))
		return err_set(err, ERR_INVALID, "it asks for %llu GPU%s; this machine has %u",
			       (unsigned long long)gpus, gpus == 1 ? "" : "s", s->gpus);
	return 0;
}

bool slots_take(struct slots *s, struct runner_resources *r)
{
	uint32_t free_gpus = 0, got = 0;

	assert(r->gpus <= ARRAY_LEN(r->gpu_ids));
	if (s->remote)
		return s->jobs_used < s->jobs && ++s->jobs_used;
	for (uint32_t g = 0; g < s->gpus; g++)
		free_gpus += !s->gpu_used[g];
	if (s->jobs_used >= s->jobs || s->cpu_used + r->cpu_milli > s->cpu_milli ||
	    s->memory_used + r->memory_bytes > s->memory_bytes || free_gpus < r->gpus)
		return false;
	s->jobs_used++;
	s->cpu_used += r->cpu_milli;
	s->memory_used += r->memory_bytes;
	for (uint32_t g = 0; g < s->gpus && got < r->gpus; g++)
		if (!s->gpu_used[g]) {
			s->gpu_used[g] = true;
			r->gpu_ids[got++] = g;
		}
	return true;
}

void slots_give(struct slots *s, const struct runner_resources *r)
{
	assert(s->jobs_used > 0);
	s->jobs_used--;
	if (s->remote)
		return;
	assert(s->cpu_used >= r->cpu_milli && s->memory_used >= r->memory_bytes);
	s->cpu_used -= r->cpu_milli;
	s->memory_used -= r->memory_bytes;
	for (uint32_t i = 0; i < r->gpus; i++)
		s->gpu_used[r->gpu_ids[i]] = false;
}
