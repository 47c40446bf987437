/* runners/kubernetes/init/cgroup.c — counts how often the kernel has killed for memory. A container
 * usually sees its own cgroup at the root of the mount. Version 2 has the count in memory.events,
 * version 1 in memory/memory.oom_control.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "runners/kubernetes/init/init.h"

static bool count_in(const char *dir, const char *file, uint64_t *ret)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[512], text[2048];
	const char *at;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text + 1, sizeof(text) - 2);
	if (n <= 0)
		return false;
	text[0] = '\n';
	text[n + 1] = '\0';
	at = strstr(text, "\noom_kill ");
	if (!at)
		return false;
	*ret = strtoull(at + 10, NULL, 10);
	return true;
}

uint64_t init_oom_kills(const char *cgroup)
{
	uint64_t n = 0;

	if (!count_in(cgroup, "memory.events", &n) &&
	    !count_in(cgroup, "memory/memory.oom_control", &n))
		return 0;
	return n;
}
