/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots of threads (inside.h). A thread that is cancelled in a call leaves by its destructor. */
#include "check/inside.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "platform/thread_cpu.h"

#define SLOTS 256u

struct slot {
	_Atomic uint64_t object, thread;	/* thread 0: free */
};

static struct slot thread_slots[SLOTS];
static _Atomic unsigned slots_taken;	/* of thread_slots: how many were ever in use */
static __thread struct slot *own_slot;
static pthread_key_t slot_key;
static pthread_once_t slot_once = PTHREAD_ONCE_INIT;

static void slot_free(void *slot)
{
	atomic_store(&((struct slot *)slot)->object, 0);
	atomic_store(&((struct slot *)slot)->thread, 0);
	own_slot = NULL;
}

static void slot_make_key(void)
{
	pthread_key_create(&slot_key, slot_free);
}

static struct slot *slot_take(void)
{
	uint64_t thread = (uint64_t)thread_id();

	pthread_once(&slot_once, slot_make_key);
	for (unsigned i = 0; i < SLOTS; i++) {
		uint64_t none = 0;

		if (!atomic_compare_exchange_strong(&thread_slots[i].thread, &none, thread))
			continue;
		if (i >= atomic_load(&slots_taken))
			atomic_store(&slots_taken, i + 1);
		pthread_setspecific(slot_key, &thread_slots[i]);
		return &thread_slots[i];
	}
	return NULL;
}

uint64_t check_inside(uint64_t object)
{
	unsigned count = atomic_load(&slots_taken);

	for (unsigned i = 0; object && i < count; i++)
		if (&thread_slots[i] != own_slot && atomic_load(&thread_slots[i].object) == object)
			return atomic_load(&thread_slots[i].thread);
	return 0;
}

uint64_t check_enter(uint64_t object)
{
	if (!own_slot)
		own_slot = slot_take();
	if (own_slot)
		atomic_store(&own_slot->object, object);
	return check_inside(object);
}

void check_leave(void)
{
	if (own_slot)
		atomic_store_explicit(&own_slot->object, 0, memory_order_release);
}
