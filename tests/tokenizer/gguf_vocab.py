"""Vocabularies of the Python packages as GGUF files without tensors, as converters of models write them.

Each function takes what the package says of a tokenizer and writes a file that model::read_vocab reads.
"""

import struct

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
SPACE = "\u2581"


def encoded_string(text):
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def encoded(value):
    """A metadata value: its type and its bytes."""
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + encoded_string(value)
    if isinstance(value, bytes):
        return struct.pack("<IIQ", 9, 0, len(value)) + value
    head = struct.pack("<II", 9, 8 if isinstance(value[0], str) else 6 if isinstance(value[0], float) else 5)
    head += struct.pack("<Q", len(value))
    if isinstance(value[0], str):
        return head + b"".join(encoded_string(item) for item in value)
    return head + struct.pack(f"<{len(value)}{'f' if isinstance(value[0], float) else 'i'}", *value)


def write(path, fields):
    """A GGUF file of version 3 with the keys `fields` and no tensors."""
    fields = {"general.architecture": "llama", **fields}
    with open(path, "wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields)))
        for key, value in fields.items():
            out.write(encoded_string(key) + encoded(value))


def vocabulary(published):
    """Texts and types by id, of a tokenizer.json: its model's and the added tokens."""
    texts = dict(enumerate(piece[0] for piece in published["model"]["vocab"])) if isinstance(
        published["model"]["vocab"], list) else {number: text for text, number in published["model"]["vocab"].items()}
    types = dict.fromkeys(texts, NORMAL)
    for token in published["added_tokens"]:
        texts[token["id"]] = token["content"]
        types[token["id"]] = CONTROL if token["special"] else USER_DEFINED
    count = max(texts) + 1
    return ([texts.get(number, f"[PAD{number}]") for number in range(count)],
            [types.get(number, UNUSED) for number in range(count)])


def joined_merges(published):
    return [merge if isinstance(merge, str) else " ".join(merge) for merge in published["model"]["merges"]]


def from_byte_bpe(path, published, pre):
    texts, types = vocabulary(published)
    write(path, {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": texts,
                 "tokenizer.ggml.token_type": types, "tokenizer.ggml.merges": joined_merges(published)})


def with_byte_types(texts, types):
    return [BYTE if len(text) == 6 and text.startswith("<0x") and text.endswith(">") else kind
            for text, kind in zip(texts, types)]


def from_merged_pieces(path, published):
    """BPE over characters with "\u2581" for spaces, by its merges."""
    texts, types = vocabulary(published)
    write(path, {"tokenizer.ggml.model": "gemma4", "tokenizer.ggml.tokens": texts,
                 "tokenizer.ggml.token_type": with_byte_types(texts, types),
                 "tokenizer.ggml.merges": joined_merges(published),
                 "tokenizer.ggml.unknown_token_id": published["model"]["vocab"]["<unk>"],
                 "tokenizer.ggml.bos_token_id": published["model"]["vocab"]["<bos>"]})


def from_scored_pieces(path, published):
    """The same as SentencePiece has it: a token's score is the less the later the first merge that makes it."""
    texts, types = vocabulary(published)
    rank = {}
    for merge in published["model"]["merges"]:
        rank.setdefault("".join(merge), len(rank))
    scores = [float(-rank.get(text, len(rank))) for text in texts]
    # Converters write runs of spaces among the added tokens as spaces.
    texts = [text.replace(SPACE, " ") if kind == USER_DEFINED else text for text, kind in zip(texts, types)]
    write(path, {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": texts, "tokenizer.ggml.scores": scores,
                 "tokenizer.ggml.token_type": with_byte_types(texts, types),
                 "tokenizer.ggml.add_space_prefix": False,
                 "tokenizer.ggml.unknown_token_id": published["model"]["vocab"]["<unk>"]})


def from_wordpiece(path, published, lowercase, strip_accents):
    """Words get a "\u2581", what goes on one loses its "##"; names in brackets stay."""
    texts, types = vocabulary(published)
    special = {token["content"] for token in published["added_tokens"]}

    def stored(text):
        if text in special:
            return text
        return text[2:] if text.startswith("##") else SPACE + text

    fields = {"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": [stored(text) for text in texts],
              "tokenizer.ggml.token_type": types}
    for name, key in (("[UNK]", "unknown"), ("[CLS]", "bos"), ("[SEP]", "seperator")):
        fields[f"tokenizer.ggml.{key}_token_id"] = texts.index(name)
    if lowercase is not None:
        fields["tokenizer.ggml.normalizer.lowercase"] = lowercase
    if strip_accents is not None:
        fields["tokenizer.ggml.normalizer.strip_accents"] = strip_accents
    write(path, fields)


def message_fields(data):
    """The fields of a protocol buffer's message that are numbers or bytes, by number."""
    def varint(at):
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                return value, at

    fields, at = {}, 0
    while at < len(data):
        key, at = varint(at)
        if key & 7 == 0:
            fields[key >> 3], at = varint(at)
        elif key & 7 == 2:
            size, at = varint(at)
            fields[key >> 3] = data[at:at + size]
            at += size
        else:
            at += 4 if key & 7 == 5 else 8
    return fields


def compiled_charsmap(model):
    """The compiled normalizer in a serialized model of sentencepiece."""
    return message_fields(message_fields(model)[3]).get(2, b"")


def from_sentencepiece(path, processor, charsmap, space_prefix, remove_extra):
    """A model of the package sentencepiece, Unigram or BPE as `processor` says."""
    count = processor.get_piece_size()
    texts = [processor.id_to_piece(number) for number in range(count)]
    types = [UNKNOWN if processor.is_unknown(number) else CONTROL if processor.is_control(number)
             else BYTE if processor.is_byte(number) else UNUSED if processor.is_unused(number) else NORMAL
             for number in range(count)]
    fields = {"tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": texts,
              "tokenizer.ggml.scores": [processor.get_score(number) for number in range(count)],
              "tokenizer.ggml.token_type": types, "tokenizer.ggml.unknown_token_id": processor.unk_id(),
              "tokenizer.ggml.eos_token_id": processor.eos_id(), "tokenizer.ggml.add_space_prefix": space_prefix,
              "tokenizer.ggml.remove_extra_whitespaces": remove_extra}
    if charsmap:
        fields["tokenizer.ggml.precompiled_charsmap"] = charsmap
    write(path, fields)


def from_unigram(path, published):
    """Unigram of the package tokenizers, with Metaspace before it."""
    texts, types = vocabulary(published)
    unknown = published["model"]["unk_id"]
    types[unknown] = UNKNOWN
    write(path, {"tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": texts, "tokenizer.ggml.token_type": types,
                 "tokenizer.ggml.scores": [float(piece[1]) for piece in published["model"]["vocab"]],
                 "tokenizer.ggml.unknown_token_id": unknown, "tokenizer.ggml.add_eos_token": False,
                 "tokenizer.ggml.add_space_prefix": True})
