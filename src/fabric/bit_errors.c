/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cables that flip bits. A bit error rate is all that is said of one; what follows is what
 * operators see:
 *
 *	SymbolErrorCounter	rises by rate x bits of the link in a second, idle or not
 *	packets			one of so many bits is lost with the chance that one of them flips
 *	LinkErrorRecovery	4 errors within 100 us cost the receiver its synchronization: the
 *				link recovers, and no more than 64 times in a second
 *	LinkDowned		at 64 recoveries a second it gives up: the link falls a second after
 *				it came up, and trains again a second later
 *
 * Of 4x EDR: at 1e-12, which the specification allows, an error in 10 s; at 1e-8 symbol errors and
 * a recovery now and then; from 5e-8 on the cable flaps. Means are counted, without chance, so that
 * a run is like the next one. Nothing is woken up for symbol errors: they are counted when somebody
 * looks.
 */
#include <errno.h>
#include <stdlib.h>

#include "fabric/internal.h"

#define US_PER_S	1e6
#define BITS_PER_MBIT	1e6
#define WINDOW_S	100e-6
#define FACTORIAL_3	6.0
#define RECOVERIES_MAX	64.0		/* in a second */
#define UP_US		1000000u	/* of a link that recovers all the time */
#define REST_US		1000000u	/* before it trains again */

struct bit_errors {
	double rate;
	double symbols, recoveries;	/* parts of one */
	uint64_t since_us;		/* counted until then */
	uint64_t falls_us;		/* the link does; FABRIC_NEVER */
	uint64_t trains_us;		/* not before; 0 */
};

static double symbols_per_second(const struct fabric_port *port)
{
	return port->bit_errors->rate * (double)port_mbps(&port->info) * BITS_PER_MBIT;
}

/* Four within the window: the rate of the first, and the chance of three more. */
static double recoveries_per_second(const struct fabric_port *port)
{
	double symbols = symbols_per_second(port), more = symbols * WINDOW_S;
	double recoveries = symbols * more * more * more / FACTORIAL_3;

	return recoveries < RECOVERIES_MAX ? recoveries : RECOVERIES_MAX;
}

/* The whole part of @sum goes to the counter. */
static void bit_errors_count(uint64_t *counter, double *sum)
{
	uint64_t whole = (uint64_t)*sum;

	*counter += whole;
	*sum -= (double)whole;
}

void bit_errors_pass(struct fabric *fabric, struct fabric_port *port)
{
	struct bit_errors *errors = port->bit_errors;
	double seconds;

	if (!errors)
		return;
	seconds = (double)(fabric->now_us - errors->since_us) / US_PER_S;
	errors->since_us = fabric->now_us;
	if (port_state_logical(port->state) == FABRIC_PORT_DOWN)
		return;
	errors->symbols += seconds * symbols_per_second(port);
	errors->recoveries += seconds * recoveries_per_second(port);
	bit_errors_count(&port->counter[COUNTER_SYMBOL_ERROR], &errors->symbols);
	bit_errors_count(&port->counter[COUNTER_LINK_ERROR_RECOVERY], &errors->recoveries);
}

void bit_errors_link_up(struct fabric *fabric, struct fabric_port *port)
{
	if (!port->bit_errors)
		return;
	port->bit_errors->falls_us = FABRIC_NEVER;
	if (recoveries_per_second(port) < RECOVERIES_MAX)
		return;
	port->bit_errors->falls_us = fabric->now_us + UP_US;
	fabric_due(fabric, port->bit_errors->falls_us);
}

bool bit_errors_link_falls(struct fabric *fabric, struct fabric_port *port)
{
	struct bit_errors *errors = port->bit_errors;

	if (fabric->now_us < errors->falls_us) {
		fabric_due(fabric, errors->falls_us);
		return false;
	}
	errors->falls_us = FABRIC_NEVER;
	errors->trains_us = fabric->now_us + REST_US;
	return true;
}

bool bit_errors_may_train(struct fabric *fabric, const struct fabric_port *port)
{
	if (!port->bit_errors || port->bit_errors->trains_us <= fabric->now_us)
		return true;
	fabric_due(fabric, port->bit_errors->trains_us);
	return false;
}

bool bit_errors_hit(struct fabric *fabric, const struct fabric_port *port, unsigned bits)
{
	if (!port->bit_errors)
		return false;
	fabric->error_random = fabric->error_random * 1664525u + 1013904223u;
	return (double)fabric->error_random < port->bit_errors->rate * bits * 0x1p32;
}

int bit_errors_set(struct fabric *fabric, struct fabric_port *port, double rate)
{
	bit_errors_pass(fabric, port);
	if (rate == 0) {
		fabric->timed -= port->bit_errors != NULL;
		free(port->bit_errors);
		port->bit_errors = NULL;
		return 0;
	}
	if (!port->bit_errors) {
		port->bit_errors = calloc(1, sizeof(*port->bit_errors));
		if (!port->bit_errors)
			return ENOMEM;
		fabric->timed++;
	}
	port->bit_errors->rate = rate;
	port->bit_errors->since_us = fabric->now_us;
	port->bit_errors->trains_us = 0;
	port->bit_errors->falls_us = FABRIC_NEVER;
	if (port_state_logical(port->state) != FABRIC_PORT_DOWN)
		bit_errors_link_up(fabric, port);
	return 0;
}

void bit_errors_start(struct fabric *fabric, struct fabric_port *port)
{
	if (!port->bit_errors)
		return;
	port->bit_errors->since_us = fabric->now_us;
	if (port->bit_errors->falls_us == FABRIC_NEVER)
		return;
	port->bit_errors->falls_us += fabric->now_us;
	fabric_due(fabric, port->bit_errors->falls_us);
}

double bit_errors_rate(const struct fabric_port *port)
{
	return port->bit_errors ? port->bit_errors->rate : 0;
}
