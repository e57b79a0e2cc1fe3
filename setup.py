"""What ament and `ros2 run` need besides pyproject.toml: files in share/, a program per node."""

from glob import glob
from pathlib import Path
from runpy import run_path

from setuptools import find_packages, setup

NAME = 'arena_robot'
PROGRAMS = run_path(f'{NAME}/nodes/executables.py')

setup(
    packages=find_packages(include=[NAME, f'{NAME}.*']),
    package_data={NAME: ['**/*']},
    exclude_package_data={'': ['*.pyc', '__pycache__/*']},
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{NAME}']),
        (f'share/{NAME}', ['package.xml']),
        (f'share/{NAME}/launch', glob('launch/*.launch.py')),
        (f'share/{NAME}/config', [path for path in glob('config/*') if Path(path).is_file()]),
        (f'share/{NAME}/config/stations', glob('config/stations/*.yaml')),
        (f'share/{NAME}/config/embodiments', glob('config/embodiments/*.yaml')),
        *((f'share/{NAME}/config/{folder}', [path for path in glob(f'config/{folder}/*')
                                             if Path(path).is_file()])
          for folder in ('lerobot_policy_arena', 'lerobot_robot_arena', 'deploy')),
    ],
    zip_safe=False,
    python_requires='>=3.10,<3.14',    # colcon cannot read it from pyproject.toml
    # One executable per node, with the node's name, for `ros2 run`.
    entry_points={'console_scripts': [
        'arena = arena_robot.cli.main:main',
        *(f'{name} = {NAME}.nodes.executables:main' for name in (*PROGRAMS['MODULES'],
                                                                    PROGRAMS['PARTS'])),
    ]},
)
