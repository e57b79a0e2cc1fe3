"""The hashes and proofs of RFC 6962."""

from arena_robot.server.transparency.merkle import (
    MerkleTree,
    is_consistent,
    leaf_hash,
    root_of_inclusion,
)

# The leaves of Certificate Transparency's own tests, and their root.
LEAVES = [bytes.fromhex(text) for text in (
    '', '00', '10', '2021', '3031', '40414243', '5051525354555657',
    '606162636465666768696a6b6c6d6e6f')]
ROOT = '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328'


def test_the_root_is_that_of_certificate_transparency():
    assert MerkleTree([leaf_hash(leaf) for leaf in LEAVES]).root().hex() == ROOT


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
