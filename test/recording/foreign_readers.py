"""
Read exports with the code of those who defined the formats, and print what it read as JSON.

    python foreign_readers.py droid EXPORT PEERS
    python foreign_readers.py lerobot DATASET
    python foreign_readers.py roboarena DUMP PEERS

PEERS has checkouts named ``droid`` (droid-dataset/droid) and ``roboarena_backend``. Uses nothing
of `arena_robot`. Only what needs a camera, a robot or a cloud is stubbed.
"""

import json
import sys
from pathlib import Path
from unittest.mock import MagicMock


def droid(export, peers):
    """Read every episode with DROID's five readers; calibration and ZED's SDK are stubbed."""
    sys.path.insert(0, str(Path(peers, 'droid')))
    import cv2
    cv2.aruco = MagicMock()
    for name in ('pyzed', 'pyzed.sl', 'imageio', 'torchvision', 'matplotlib', 'matplotlib.pyplot'):
        sys.modules[name] = MagicMock()
    from droid.camera_utils.recording_readers.mp4_reader import MP4Reader
    from droid.data_processing.timestep_processing import TimestepProcesser
    from droid.postprocessing.parse import parse_trajectory
    from droid.trajectory_utils.misc import load_trajectory
    from droid.trajectory_utils.trajectory_reader import TrajectoryReader

    found = {}
    for place in sorted(path.parent for path in Path(export).glob('*/trajectory.h5')):
        table, videos = str(place / 'trajectory.h5'), place / 'recordings' / 'MP4'
        length = TrajectoryReader(table).length()
        parsed, record = parse_trajectory(Path(export), place, 'id', 'lab', 'user', 'u', '2026')
        pictures = {}
        for path in sorted(videos.glob('*.mp4')):
            reader = MP4Reader(str(path), path.stem)
            reader.set_reading_parameters()
            reader.set_frame_index(length - 1)
            shown, stamp = reader.read_camera(return_timestamp=True)
            pictures |= {name: [*image.shape, float(image.mean())]
                         for name, image in shown['image'].items()} | {path.stem: stamp}
        steps = load_trajectory(table, recording_folderpath=str(videos))
        processer = TimestepProcesser(action_space='joint_position',
                                      gripper_action_space='position')
        processed = [processer.forward(step) for step in steps]
        last = processed[-1]
        found[place.name] = {
            'length': length, 'parsed': parsed, 'record': record, 'pictures': pictures,
            'with_pictures': sum(len(step['observation']['image']) for step in steps),
            'state': last['observation']['state'].shape, 'action': last['action'].tolist(),
            'cameras': {kind: len(views) for kind, views in
                        last['observation']['camera']['image'].items()}}
    return found


def lerobot(dataset, _peers):
    """Load a dataset as training does, draw a batch, and read the progress of RA-BC."""
    import torch
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from lerobot.utils.rabc import RABCWeights

    backend = 'pyav'    # torchcodec needs the FFmpeg libraries of the system
    plain = LeRobotDataset('arena/export', root=dataset, video_backend=backend)
    fps = plain.meta.fps
    ahead = LeRobotDataset('arena/export', root=dataset, video_backend=backend, delta_timestamps={
        'action': [k / fps for k in range(4)], plain.meta.camera_keys[0]: [-1 / fps, 0.0]})
    batch = next(iter(torch.utils.data.DataLoader(ahead, batch_size=4, shuffle=True)))
    progress = Path(dataset, 'sarm_progress.parquet')
    return {
        'fps': fps, 'robot': plain.meta.robot_type, 'frames': len(plain),
        'episodes': plain.num_episodes, 'cameras': plain.meta.camera_keys,
        'shapes': {key: list(value.shape) for key, value in batch.items()
                   if isinstance(value, torch.Tensor)},
        'stats': {key: sorted(values) for key, values in plain.meta.stats.items()},
        'light': [{key: float(plain[k][key].mean()) for key in plain.meta.camera_keys}
                  for k in range(len(plain))],
        'tasks': [plain[k]['task'] for k in range(len(plain))],
        'progress': RABCWeights(progress, 4, device='cpu').get_stats() if progress.exists()
        else None}


def lerobot_training(dataset, _peers):
    """Return the losses of ten steps of LeRobot's ACT, made small, on state and wrist pictures."""
    import torch
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from lerobot.datasets.utils import dataset_to_policy_features
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.act.modeling_act import ACTPolicy
    from lerobot.policies.factory import make_pre_post_processors

    torch.manual_seed(0)
    data = LeRobotDataset('arena/export', root=dataset, video_backend='pyav', delta_timestamps={
        'action': [k / 15 for k in range(4)]})
    features = dataset_to_policy_features(data.meta.features)
    seen = ('observation.state', 'observation.images.wrist')
    config = ACTConfig(
        input_features={name: features[name] for name in seen}, dim_model=64, n_heads=4,
        output_features={'action': features['action']}, chunk_size=4, n_action_steps=4,
        dim_feedforward=64, n_encoder_layers=1, n_vae_encoder_layers=1, device='cpu',
        pretrained_backbone_weights=None)
    policy = ACTPolicy(config)
    prepared, _ = make_pre_post_processors(config, dataset_stats=data.meta.stats)
    learner = torch.optim.AdamW(policy.parameters(), 1e-4)
    batches = iter(torch.utils.data.DataLoader(data, batch_size=2, shuffle=True))
    losses = []
    for _ in range(10):
        loss, _ = policy.forward(prepared(next(batches)))
        learner.zero_grad()
        loss.backward()
        learner.step()
        losses.append(loss.item())
    return losses


def lerobot_viz(dataset, _peers):
    """Have LeRobot's own tool draw the first episode; return the entities of its Rerun file."""
    sys.modules['torchcodec'] = None    # it needs FFmpeg of the system; LeRobot takes PyAV then
    import rerun.dataframe
    from lerobot.scripts import lerobot_dataset_viz

    drawn = Path(dataset, 'drawn')
    sys.argv = ['lerobot-dataset-viz', '--repo-id=arena/export', f'--root={dataset}',
                '--episode-index=0', '--save=1', f'--output-dir={drawn}', '--num-workers=0']
    lerobot_dataset_viz.main()
    [path] = drawn.rglob('*.rrd')
    columns = rerun.dataframe.load_recording(path).schema().component_columns()
    return sorted({column.entity_path for column in columns})


def roboarena(dump, peers):
    """Upload a dump to RoboArena's own server, in memory, and return what its site would list."""
    import sqlalchemy.dialects.postgresql
    import yaml
    sqlalchemy.dialects.postgresql.UUID = lambda as_uuid: sqlalchemy.String()
    sys.path.insert(0, str(Path(peers, 'roboarena_backend', 'central_server')))
    for name in ('google', 'google.cloud', 'google.cloud.storage'):
        sys.modules[name] = MagicMock()
    import central_server as server
    server.SessionLocal = server.initialize_database_connection('sqlite://')
    client, answers = server.app.test_client(), []
    for path in sorted(Path(dump, 'evaluation_sessions').glob('*/metadata.yaml')):
        about, session = yaml.safe_load(path.read_text()), path.parent.name
        names = {slot: policy['policy_name'] for slot, policy in about['policies'].items()}
        with server.SessionLocal() as database:
            database.add(server.SessionModel(
                session_uuid=session, evaluation_type='A/B', policyA_name=names['A'],
                policyB_name=names['B'], evaluation_location=about['evaluation_location'],
                evaluator_name=about['evaluator_name'], evaluation_notes=''))
            database.commit()
        for slot, policy in about['policies'].items():
            files = {file.stem.split(f'{session}_')[1]: file.open('rb')
                     for file in (path.parent / f'{slot}_{names[slot]}').iterdir()}
            answers.append(client.post('/upload_eval_data', data={
                'session_id': session, 'policy_letter': f'{slot};avg_latency=0.1',
                'command': about['language_instruction'], **files,
                'third_person_camera_type': policy.get('third_person_camera', ''),
                **{key: str(policy[key]) for key in (
                    'binary_success', 'partial_success', 'duration')}}).get_json())
        notes = f"VALID_SESSION:\nPREFERENCE={about['preference']}\n" \
                f"LONGFORM_FEEDBACK={about['longform_feedback']}\n"
        answers.append(client.post('/terminate_session', data={
            'session_id': session, 'evaluation_notes': notes}).get_json())
    return {'answers': answers, 'listed': server._build_ab_evaluations_payload()}


if __name__ == '__main__':
    sys.stdout.write(json.dumps(globals()[sys.argv[1]](*sys.argv[2:]), default=str))
