"""The hashes and proofs of RFC 6962."""

from arena_robot.server.transparency.merkle import (
    MerkleTree,
    leaf_hash,
    node_hash,
    root_of_inclusion,
)

# The leaves of Certificate Transparency's own tests, and their root.
LEAVES = [bytes.fromhex(text) for text in (
    '', '00', '10', '2021', '3031', '40414243', '5051525354555657',
    '606162636465666768696a6b6c6d6e6f')]
ROOT = '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328'


def test_the_root_is_that_of_certificate_transparency():
    assert MerkleTree([leaf_hash(leaf) for leaf in LEAVES]).root().hex() == ROOT


def is_consistent(old, new, old_root, new_root, path):
    """Tell whether a proof shows that the log of ``new`` entries only added to that of ``old``."""
    if old == new:
        return not path and old_root == new_root
    if not 0 < old < new or not path:
        return False
    hashes = list(path) if old & (old - 1) else [old_root, *path]
    place, last = old - 1, new - 1
    while place % 2:
        place, last = place >> 1, last >> 1
    first = second = hashes[0]
    for node in hashes[1:]:
        if last == 0:
            return False
        if place % 2 or place == last:
            first, second = node_hash(node, first), node_hash(node, second)
            while place % 2 == 0 and place:
                place, last = place >> 1, last >> 1
        else:
            second = node_hash(second, node)
        place, last = place >> 1, last >> 1
    return last == 0 and first == old_root and second == new_root


def test_every_proof_holds_and_no_other():
    leaves = [leaf_hash(bytes([k])) for k in range(40)]
    tree = MerkleTree(leaves)
    for size in range(1, 41):
        root = tree.root(size)
        assert root == MerkleTree(leaves[:size]).root()
        for number in range(size):
            path = tree.inclusion(number, size)
            assert root_of_inclusion(leaves[number], number, size, path) == root
            assert root_of_inclusion(leaves[number - 1], number, size, path) != root or size == 1
        for old in range(1, size + 1):
            path = tree.consistency(old, size)
            assert is_consistent(old, size, tree.root(old), root, path)
            assert not is_consistent(old, size, bytes(32), root, path)
            if path:
                assert not is_consistent(old, size, tree.root(old), root, path[:-1])
