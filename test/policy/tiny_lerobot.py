"""
Save a tiny LeRobot policy with random weights: ``python tiny_lerobot.py KIND FOLDER``.

Runs where LeRobot is installed. Uses LeRobot's own classes alone.
"""

import sys

from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.factory import get_policy_class, make_policy_config, make_pre_post_processors

SMALL = {
    'act': {'chunk_size': 8, 'n_action_steps': 6, 'dim_model': 32, 'n_heads': 2,
            'dim_feedforward': 32, 'n_encoder_layers': 1, 'n_decoder_layers': 1,
            'n_vae_encoder_layers': 1, 'latent_dim': 4},
    'diffusion': {'horizon': 8, 'n_action_steps': 4, 'down_dims': (16, 32), 'n_groups': 4,
                  'num_train_timesteps': 4, 'crop_shape': None, 'diffusion_step_embed_dim': 8,
                  'spatial_softmax_num_keypoints': 4},
}


def main(kind, folder):
    """Make it for a state of 8 numbers and two pictures, and save it with its processors."""
    pictures = {f'observation.images.{name}': PolicyFeature(FeatureType.VISUAL, (3, 96, 96))
                for name in ('exterior_1_left', 'wrist_left')}
    config = make_policy_config(
        kind, device='cpu', pretrained_backbone_weights=None, push_to_hub=False,
        input_features={**pictures, 'observation.state': PolicyFeature(FeatureType.STATE, (8,))},
        output_features={'action': PolicyFeature(FeatureType.ACTION, (8,))}, **SMALL[kind])
    config.normalization_mapping = dict.fromkeys(
        config.normalization_mapping, type(next(iter(config.normalization_mapping.values())))(
            'IDENTITY'))
    policy = get_policy_class(kind)(config)
    policy.save_pretrained(folder)
    for processor in make_pre_post_processors(config):
        processor.save_pretrained(folder)


if __name__ == '__main__':
    main(*sys.argv[1:])
