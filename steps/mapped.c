#include "steps/mapped.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

int mapped_open(struct mapped *m, const char *path, int flags, struct err *err)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *at;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot read %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a regular file", path);
	*m = (struct mapped){ .text = "", .n = (size_t)st.st_size };
	if (!m->n)
		return 0;
	at = mmap(NULL, m->n, PROT_READ, MAP_PRIVATE | flags, fd, 0);
	if (at == MAP_FAILED) {
		m->n = 0;
		return err_errno(err, "cannot map %s", path);
	}
	m->text = at;
	return 0;
}

void mapped_close(struct mapped *m)
{
	if (m->n)
		munmap((void *)(uintptr_t)m->text, m->n);
	*m = (struct mapped){ 0 };
}
