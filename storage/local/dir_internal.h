/* storage/local/dir_internal.h — a store in a directory, for its two files: dir.c puts and gets
 * objects, dir_gc.c lists and collects them. */
#ifndef CAIRN_STORAGE_LOCAL_DIR_INTERNAL_H
#define CAIRN_STORAGE_LOCAL_DIR_INTERNAL_H

#include <stdatomic.h>
#include <sys/stat.h>
#include "storage/condemned.h"
#include "storage/internal.h"
#include "storage/local/flush.h"
#include "storage/local/leases.h"
#include "storage/local/linked.h"
#include "storage/local/packs.h"

struct dir_store {
	struct store base;
	int root;
	atomic_ulong temp_counter;
	struct dir_lease lease; /* held while a run uses the store */
	/* What gc may remove while the lease is held; doubt_all: anything. */
	struct condemned condemned;
	bool doubt_all;
	struct linked *linked; /* blobs that are files of the user's */
	struct packs *packs;
	struct flush flush;
};

static inline struct dir_store *dir_of(struct store *s)
{
	return CONTAINER_OF(s, struct dir_store, base);
}

/* The stat of an object and its path: of the store's own file, or else of the user's. -1 with
 * errno. */
int dir_stat(struct dir_store *d, enum store_space space, const struct digest *name,
	     char path[OBJECT_PATH_MAX], struct stat *st);

/* Tells whether the path is that of a file of the user's. */
static inline bool dir_names_linked(const char *path)
{
	return str_has_prefix(path, LINKED_DIR "/");
}

/* Locks an object against dir_gc.c (LOCK_SH) or against puts (LOCK_EX). False: another process
 * holds the lock. Where files can't be locked, true. */
bool dir_lock(int fd, int how);

/* Removes the files of an object; packs keep theirs. */
int dir_remove(struct dir_store *d, enum store_space space, const struct digest *name,
	       struct err *err);

/* Sets the error of a write from errno. */
int dir_errno(struct dir_store *d, const char *doing, struct err *err);

int dir_list(struct store *s, enum store_space space, store_list_fn *fn, void *arg,
	     struct err *err);

extern const struct store_gc_ops dir_gc_ops;

#endif
