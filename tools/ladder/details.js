// SPDX-License-Identifier: BSD-2-Clause
// What is known of the chosen message: what it means, what the trace says, every field with its value in words.
'use strict';

function element(name, properties = {}, ...children) {
	const made = document.createElement(name);
	for (const [key, value] of Object.entries(properties)) {
		if (key === 'style')
			made.style.setProperty(...value);
		else if (key.startsWith('on'))
			made.addEventListener(key.slice(2), value);
		else if (key === 'class')
			made.className = value;
		else
			made.setAttribute(key, value);
	}
	made.append(...children.filter(child => child !== null && child !== undefined));
	return made;
}

// ---- values ----

const ECN = ['not capable of congestion marks', 'capable: ECT(1)', 'capable: ECT(0)', 'CE: a switch was congested'];

function ipv6Text(bytes) {
	const words = [];
	for (let i = 0; i < 16; i += 2)
		words.push((bytes[i] << 8 | bytes[i + 1]).toString(16));
	const text = words.join(':');
	const zeros = [...text.matchAll(/(?:^|:)0(?::0)+(?=:|$)/g)].sort((a, b) => b[0].length - a[0].length)[0];
	if (!zeros)
		return text;
	return (text.slice(0, zeros.index) + '::' + text.slice(zeros.index + zeros[0].length).replace(/^:/, '')) || '::';
}

const FORMATS = {
	DECIMAL: value => String(value),
	HEX: (value, width) => hex(value, Math.ceil(width / 4)),
	KEY: value => hex(value, 8),
	ADDRESS: value => hex(value, 16),
	NUMBER64: value => value + (value > 9n ? ' (' + hex(value, 1) + ')' : ''),
	FLAG: value => value ? '1, yes' : '0, no',
	QPN: value => qpnText(Number(value)),
	PSN: value => value + ' (' + hex(value, 6) + ')',
	ECN: value => value + ', ' + ECN[value],
	OPCODE: value => hex(value, 2) + ', ' + (DATA.table.opcode[value]?.name ?? 'unknown').replace(/_/g, ' '),
	SYNDROME: value => hex(value, 2) + ', ' + syndromeWords(Number(value)),
	MAC: (value, width, bytes) => [...bytes].map(b => b.toString(16).padStart(2, '0')).join(':'),
	IPV4: (value, width, bytes) => [...bytes].join('.'),
	IPV6: (value, width, bytes) => ipv6Text(bytes),
};

function syndromeWords(syndrome) {
	const words = DATA.table.syndrome[syndrome][0];
	if (words !== 'ack')
		return words.replace('rnr nak', 'RNR NAK: wait').replace(/^nak/, 'NAK:').replace('psn', 'PSN');
	return (syndrome & 31) === 31 ? 'ACK without credits' : 'ACK, credit code ' + (syndrome & 31);
}

// ---- layers ----

function fieldRow(name, value, words) {
	return element('tr', {}, element('th', { scope: 'row' }, name),
		element('td', {}, element('b', { class: 'mono' }, value), words ? element('p', {}, words) : null));
}

function layerBox(title, clause, words, rows, open) {
	return element('details', { class: 'layer', ...(open ? { open: '' } : {}) },
		element('summary', {}, title, element('small', {}, clause)), words ? element('p', {}, words) : null,
		element('table', {}, element('tbody', {}, ...rows)));
}

function layer(name, bytes, open) {
	const [title, clause, words] = DATA.table.layer[name];
	const rows = DATA.table.field.filter(f => f[0] === name).map(([, field, bit, width, format, meaning]) =>
		fieldRow(field, FORMATS[format](bits(bytes, bit, width), width, bytes.subarray(bit >> 3, (bit + width) >> 3)), meaning));
	return layerBox(title, clauseText(clause), words, rows, open);
}

const clauseText = clause => /^[0-9A]/.test(clause) ? 'IBTA ' + clause : clause.replace(/, A/, ', IBTA A');

const CM_NUMBERS = { 'REJ reason': 'reject', 'SIDR_REP status': 'sidr', 'APR status': 'apr' };

function cmValue(message, field, width, member, bytes) {
	if (!member)
		return width === 128 ? ipv6Text(bytes).replace(/^::ffff:(\w+):(\w+)$/, (all, a, b) => '::ffff:' +
			[parseInt(a, 16) >> 8, parseInt(a, 16) & 255, parseInt(b, 16) >> 8, parseInt(b, 16) & 255].join('.'))
			: [...bytes.subarray(0, 16)].map(b => b.toString(16).padStart(2, '0')).join(' ') + ' ...';
	const value = bits(bytes, 0, width);
	const numbers = DATA.table[CM_NUMBERS[message + ' ' + field]];
	if (numbers?.[value])
		return value + ', ' + numbers[value][0] + ': ' + numbers[value][1];
	if (/qpn|psn|comm_id|eecn|qkey|guid|service_id|pkey/.test(field))
		return hex(value, Math.ceil(width / 4));
	return String(value);
}

function shifted(bytes, bit, width) {	// bits of a field, moved to the beginning of bytes
	const value = bits(bytes, bit, width) << BigInt((8 - width % 8) % 8);
	const out = new Uint8Array(Math.ceil(width / 8));
	for (let i = 0, rest = value; i < out.length; i++, rest >>= 8n)
		out[out.length - 1 - i] = Number(rest & 255n);
	return out;
}

function cmLayer(kind, data) {
	const message = DATA.table.cm[kind];
	const rows = message.fields.map(([name, bit, width, member, words]) =>
		fieldRow(name.replace(/_/g, ' '), cmValue(message.name, name, width, member, width % 8 || bit % 8 ? shifted(data, bit, width)
			: data.subarray(bit / 8, (bit + width) / 8)), words));
	const at = 232 - message.private, used = data.subarray(at, 232);
	rows.push(fieldRow('private data', [...used.subarray(0, 40)].map(b => b.toString(16).padStart(2, '0')).join(' ') + ' ...',
		message.private + ' bytes of the applications; those of rdma_cm begin with IP addresses and port'));
	return layerBox('CM ' + message.name.replace('_', ' '), 'IBTA ' + message.clause, message.words, rows, true);
}

function hexDump(bytes) {
	const lines = [];
	for (let at = 0; at < bytes.length; at += 16) {
		const part = [...bytes.subarray(at, at + 16)];
		lines.push(at.toString(16).padStart(4, '0') + '  ' + part.map(b => b.toString(16).padStart(2, '0')).join(' ').padEnd(48) + ' ' +
			part.map(b => b >= 32 && b < 127 ? String.fromCharCode(b) : '\u00b7').join(''));
	}
	return element('pre', { class: 'hex' }, lines.join('\n'));
}

// Of an operation through memory: what the headers of a request would tell of it. There were none, so no BTH, no PSN.
function memoryLayers(item) {
	const bytes = rawOf(item), boxes = [], layers = [...DATA.table.opcode[P.opcode[item]].layers];
	const [number, taken] = DATA.memory[item] ?? [];
	const rows = [fieldRow('manner', mannerOf(item), MANNERS[mannerOf(item)]), fieldRow('bytes', String(P.bytes[item]), null)];
	if (number !== undefined)
		rows.push(fieldRow('message', String(number), 'counted for each direction of a connection'));
	if (taken >= 0)
		rows.push(fieldRow('seen to be consumed', timeText(taken), timeText(taken - sentAt(item)) + ' after it was put into the ring'));
	boxes.push(layerBox('Operation', 'through memory', null, rows, true));
	if (P.kind[item] === KIND.atomic)
		layers.push('ATOMICACKETH');
	let at = 0;
	for (const name of layers) {
		if (at + LAYER_BYTES[name] <= bytes.length)
			boxes.push(layer(name, bytes.subarray(at), true));
		at += LAYER_BYTES[name];
	}
	return boxes;
}

const MANNERS = { 'store': 'the requester has the memory of the other process mapped, and loaded or stored there itself',
	'copy': 'the kernel copied between the memories of both processes (process_vm_readv, process_vm_writev)',
	'message in a ring': 'put into a ring in shared memory, from which the receiver takes it',
	'in memory': 'the requester loaded, stored or copied in the memory of the other process' };

function packetLayers(item) {
	if (flagged(item, MEMORY))
		return memoryLayers(item);
	const bytes = rawOf(item), ip = P.ip[item], bth = P.bth[item], boxes = [], code = DATA.table.opcode[P.opcode[item]];
	let at = bth + 12;
	const mad = P.kind[item] === KIND.cm;
	boxes.push(layer('BTH', bytes.subarray(bth), !mad));
	for (const name of code.layers) {
		boxes.push(layer(name, bytes.subarray(at), !mad));
		at += LAYER_BYTES[name];
	}
	if (mad && bytes.length >= at + 24) {
		boxes.unshift(layer('MAD', bytes.subarray(at), P.cm[item] < 0));
		if (P.cm[item] >= 0)
			boxes.unshift(cmLayer(P.cm[item], bytes.subarray(at + 24)));
	}
	if (P.form[item] === FORM.ROCE_V2)
		boxes.push(layer('UDP', bytes.subarray(bth - 8), false), layer(bytes[ip] >> 4 === 6 ? 'IPV6' : 'IPV4', bytes.subarray(ip), false));
	else if (ip >= 0)
		boxes.push(layer('GRH', bytes.subarray(ip), false));
	if (P.link[item] >= 0)
		boxes.push(layer(P.form[item] === FORM.INFINIBAND ? 'LRH' : 'ETHERNET', bytes.subarray(P.link[item]), false));
	if (P.bytes[item] > 0 && bytes.length > at && P.kind[item] !== KIND.cm)
		boxes.push(element('details', { class: 'layer' }, element('summary', {}, 'Payload', element('small', {}, bytesText(P.bytes[item]))),
			hexDump(bytes.subarray(at))));
	boxes.push(element('details', { class: 'layer' }, element('summary', {}, 'Bytes', element('small', {}, bytes.length + ' kept here')),
		hexDump(bytes)));
	return boxes;
}

// ---- in words ----

function note(text, bad, more) {
	return element('div', { class: bad ? 'note bad' : 'note' }, ...[text].flat(), more ? element('pre', {}, more.text) : null);
}

function link(item, text) {
	return element('a', { href: '#', onclick: event => { event.preventDefault(); select(item, true); } }, text);
}

function packetNotes(item) {
	const notes = [], from = laneText(P.from[item]), to = laneText(P.to[item]);
	if (flagged(item, FLAG.LOST))
		notes.push(note('Lost: ' + from + ' sent it, and ' + to + ', which was recorded at that time, never received it.', true));
	if (flagged(item, FLAG.DROPPED))
		notes.push(note('Dropped: it was not processed. The comment below says why.', true));
	if (flagged(item, FLAG.AGAIN))
		notes.push(note('Retransmission: packets up to this PSN were sent before.', true));
	if (flagged(item, FLAG.DUPLICATE))
		notes.push(note('Received once more than it was sent, or by several members of a group.'));
	if (flagged(item, MEMORY))
		notes.push(note('Both processes are of one host: no packet was sent, nothing was acknowledged, and there is no PSN. VERBATIM_MEMORY=off ' +
			'makes packets of it.'));
	else if (flagged(item, FLAG.RING))
		notes.push(note('It went through a ring in shared memory, not through the network.'));
	if (isProblem(item) && PROBLEM.get(item).times > 1)
		notes.push(note((PROBLEM.get(item).times - 1) + ' more marks follow from it: they are no problems of their own.'));
	if (flagged(item, FLAG.GUESSED))
		notes.push(note('No header names the sending QP; it follows from the PSNs of the answers.'));
	if (P.kind[item] === KIND.nak)
		notes.push(note([element('b', {}, ERRORS.get('nak ' + (P.syndrome[item] & 31))?.heading ?? 'NAK')], true, ERRORS.get('nak ' + (P.syndrome[item] & 31))));
	if (P.kind[item] === KIND.rnr)
		notes.push(note([element('b', {}, 'RNR')], true, ERRORS.get('nak RNR')));
	if (P.cm[item] >= 0 && DATA.table.cm[P.cm[item]].name === 'REJ') {
		const reason = bits(rawOf(item), (layerOffset(item, 'DETH') + LAYER_BYTES.DETH + 24) * 8 + 80, 16);
		notes.push(note([element('b', {}, ERRORS.get('reject ' + reason)?.heading ?? 'Rejected')], true, ERRORS.get('reject ' + reason)));
	}
	if (flagged(item, FLAG.FRAGMENT))
		notes.push(note('IP cut it into fragments, which RoCE forbids (its packets say so: don\'t fragment): adapters drop such a packet.'));
	if (flagged(item, FLAG.LATE))
		notes.push(note('Late: an answer that nobody waited for any more, as the queue pair had been destroyed or both sides had disconnected at once.'));
	if (flagged(item, FLAG.PLANTED))
		notes.push(note('On purpose: VERBATIM_FAULT says so.'));
	if (P.acks[item]) {
		const first = firstAcked(item);
		notes.push(note([P.acks[item] > 1 ? 'Answers for ' + P.acks[item] + ' packets (coalesced), from ' : 'Answers ',
			link(first, packetLabel(first, 2)), '.']));
	}
	if (P.acked[item] >= 0)
		notes.push(note(['Answered by ', link(P.acked[item], packetLabel(P.acked[item], 2)), ' after ' +
			timeText(receivedAt(P.acked[item]) - sentAt(item)) + '.']));
	return notes;
}

const COMMENT_WORDS = { path: 'how it travelled', qp: 'the queue pair of the process that recorded it', state: 'of that queue pair',
	wr_id: 'work request that it belongs to', by: 'how the memory of the other process was reached', message: 'its number in the ring', retransmission: 'how often it was repeated before', dropped: 'why it was not processed' };

function commentBox(item) {
	const rows = [];
	commentPair(item).forEach((comment, end) => {
		for (const part of (comment ?? '').split(';').map(p => p.trim()).filter(p => p)) {
			const [, key, value] = part.match(/^(\S+)\s*(.*)$/);
			rows.push(fieldRow(key + (end ? ' (receiver)' : ' (sender)'), value, COMMENT_WORDS[key]));
		}
	});
	return rows.length ? layerBox('Trace', 'comments of both ends', null, rows, true) : null;
}

function timesRow(item) {
	const parts = [];
	if (P.sent[item] >= 0)
		parts.push((flagged(item, FLAG.INSTANT) ? 'captured at ' : 'sent at ') + timeText(P.sent[item]));
	if (P.received[item] >= 0)
		parts.push('received at ' + timeText(P.received[item]));
	if (P.sent[item] >= 0 && P.received[item] >= 0)
		parts.push(P.received[item] >= P.sent[item] ? 'underway ' + timeText(P.received[item] - P.sent[item])
			: 'so the sender took its time when the call was over');
	return parts.join(', ');
}

function packetDetails(item) {
	const code = DATA.table.opcode[P.opcode[item]];
	return [
		element('h2', { style: ['--c', `var(--${colourName(item)})`] }, element('i'), packetName(item)),
		element('p', { class: 'route' }, laneText(P.from[item]) + ' \u2192 ' + laneText(P.to[item])),
		element('p', { class: 'route' }, code.service + (flagged(item, MEMORY) ? ', ' : ', PSN ' + P.psn[item] + ', ') + timesRow(item)),
		...packetNotes(item), commentBox(item), ...packetLayers(item),
	];
}

function eventErrors(json) {
	if (json.event === 'completion' && json.status !== 'SUCCESS')
		return ERRORS.get('status IBV_WC_' + json.status);
	if (isState(json))
		return ERRORS.get('state IBV_QPS_' + stateOf(json)) ?? ERRORS.get('state ' + stateOf(json));
	if (json.event === 'cm')
		return ERRORS.get('cm ' + json.name);
	if (json.event === 'async')
		return ERRORS.get('event ' + json.name);
	return null;
}

function eventDetails(item) {
	const { json, lane, time } = eventOf(item), found = eventErrors(json);
	const rows = Object.entries(json).filter(([key]) => key !== 'v').map(([key, value]) =>
		fieldRow(key, typeof value === 'object' ? JSON.stringify(value) : String(value), null));
	return [
		element('h2', { style: ['--c', `var(--${colourName(item)})`] }, element('i'), eventLabel(item)),
		element('p', { class: 'route' }, laneText(lane) + ', at ' + timeText(time)),
		json.event === 'explain' ? note(String(json.text)) : null,
		json.why ? note('Why: ' + json.why) : null,
		found ? note([element('b', {}, found.heading)], eventFailed(json), found) : null,
		layerBox(String(json.event ?? 'event'), 'event of the trace', null, rows, true),
	];
}

function showDetails(item) {
	$('details').hidden = false;
	$('details-body').replaceChildren(...(isPacket(item) ? packetDetails(item) : eventDetails(item)).filter(node => node));
	$('details-body').scrollTop = 0;
}

function hideDetails() {
	$('details').hidden = true;
}
