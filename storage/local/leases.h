/* storage/local/leases.h — which runs use a directory store, and since when.
 *
 * leases/PID-N is locked while its run is active, and its time is when the run began. A run renews
 * what it finds, and gc treats as young what was young when the oldest active run began. The kernel
 * unlocks the file of a killed run; whoever looks next removes it.
 */
#ifndef CAIRN_STORAGE_LOCAL_LEASES_H
#define CAIRN_STORAGE_LOCAL_LEASES_H

#include "base/err.h"

struct dir_lease {
	int fd; /* -1: none is held */
	char *name;
};
/* `root` is the store's directory. -1 with errno; EBUSY: gc removed each file that was made. */
int dir_lease_take(struct dir_lease *lease, int root);
/* Also of a lease that was never taken. */
void dir_lease_give_back(struct dir_lease *lease, int root);
/* The time at which the oldest active run began; INT64_MAX: none is active. */
int dir_leases_oldest(int root, int64_t *ret_ns, struct err *err);

#endif
